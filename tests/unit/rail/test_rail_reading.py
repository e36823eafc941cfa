"""What is asked of a rail, and how refusals name it."""

from datetime import UTC, datetime, timedelta, timezone
from math import inf, nan
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import InvalidJobError
from rota.rail.jobs import RailSettings, show_rail_priority
from rota.rail.rail import (
    MILLISECONDS_FROM,
    Asked,
    Rule,
    outer_names,
    read_moment,
    read_once,
    read_rule,
    read_series,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECONDS = NOW.timestamp()


@pytest.mark.parametrize(
    "value",
    [
        NOW,
        NOW.astimezone(timezone(timedelta(hours=5))),
        "2026-05-01T12:00:00Z",
        "2026-05-01T14:00:00+02:00",
        int(SECONDS),
        SECONDS,
        int(SECONDS * 1000),
        SECONDS * 1000,
    ],
)
def test_a_moment_may_be_written_in_many_ways(value: object) -> None:
    assert read_moment(value, "run_at") == NOW


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(MILLISECONDS_FROM // 1000, MILLISECONDS_FROM - 1))
def test_the_same_number_of_seconds_and_of_milliseconds_is_the_same_moment(seconds: int) -> None:
    moment = read_moment(seconds, "run_at")
    assert moment == read_moment(seconds * 1000, "run_at")
    assert moment.timestamp() == seconds


@pytest.mark.parametrize(
    "value", [None, True, "soon", NOW.replace(tzinfo=None), "2026-05-01T12:00", -1, nan, inf, 1e300]
)
def test_an_invalid_instant_is_refused_with_its_parameter_name(value: object) -> None:
    with pytest.raises(InvalidJobError) as refusal:
        read_moment(value, "start_from")
    assert refusal.value.field == "start_from"


def test_priorities_are_turned_round_and_back() -> None:
    asked = [Asked("kind", {}, priority) for priority in range(1, 6)]
    requests = [read_once(each, NOW, RailSettings()) for each in asked]
    assert [request.priority for request in requests] == [10, 8, 6, 4, 2]
    assert [show_rail_priority(each) for each in range(10, 0, -1)] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize("value", [0, 6, True, "3", 2.0, None])
def test_another_priority_is_refused(value: object) -> None:
    with pytest.raises(InvalidJobError, match="priority must be"):
        read_once(Asked("kind", {}, value), NOW, RailSettings())


def test_a_key_and_a_bucket_may_stand_in_the_payload() -> None:
    payload = {"event": 1, "idempotencyKey": "reminder:1", "runAtBucket": "monday"}
    request = read_once(Asked("reminder.send", payload), NOW, RailSettings())
    assert (request.idempotency_key, request.occurrence) == ("reminder:1", "monday")
    assert request.payload == payload
    same = Asked("reminder.send", payload, idempotency_key="reminder:1")
    assert read_once(same, NOW, RailSettings()).idempotency_key == "reminder:1"


@pytest.mark.parametrize(
    ("payload", "key", "message"),
    [
        ({"idempotencyKey": "a"}, "b", "idempotency_key must be the one in payload.idempotencyKey"),
        ({"idempotencyKey": 5}, None, "payload.idempotencyKey must be a text, got int"),
        ({"runAtBucket": ""}, None, "payload.runAtBucket must have 1 to 255 characters, got 0"),
        ([1], None, "payload must be a JSON object, got list"),
        (None, None, "payload must be a JSON object, got nothing"),
        ({}, "", "idempotency_key must have 1 to 255 characters, got 0"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(payload: Any, key: Any, message: str) -> None:
    with pytest.raises(InvalidJobError) as refusal:
        read_once(Asked("kind", payload, idempotency_key=key), NOW, RailSettings())
    assert refusal.value.message == message


def test_each_occurrence_of_a_series_has_a_bucket_of_its_own() -> None:
    asked = Asked("kind", {"runAtBucket": "x"})
    with pytest.raises(InvalidJobError, match=r"^payload\.runAtBucket cannot be given"):
        read_series(asked, Rule(interval="1h"), RailSettings())


def test_the_settings_give_what_a_job_leaves_out() -> None:
    request = read_once(Asked("kind", {}), NOW, RailSettings(queue="mail"))
    assert (request.queue, request.priority, request.retry_policy.max_attempts) == ("mail", 6, 5)
    asked = Asked("kind", {}, queue="other", retry_policy={"max_attempts": 1})
    other = read_once(asked, NOW, RailSettings(queue="mail"))
    assert other.queue == "other"
    assert str(other.retry_policy) == str({"max_attempts": 1})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(tz="UTC"), "rrule or cron or interval must be given, and only one of them"),
        (
            Rule(rrule="FREQ=DAILY", cron="* * * * *", tz="UTC"),
            "rrule or cron or interval must be given, and only one of them",
        ),
        (Rule(rrule="FREQ=DAILY"), "tz is missing: a time zone such as Europe/London"),
        (Rule(cron="* * * * *", tz=5), "tz must be a time zone, got int"),
        (
            Rule(interval=timedelta(milliseconds=1)),
            "interval must be whole seconds, at least one, got 0:00:00.001000",
        ),
        (
            Rule(interval=timedelta(seconds=1.5)),
            "interval must be whole seconds, at least one, got 0:00:01.500000",
        ),
    ],
)
def test_a_rule_that_does_not_say_when_is_refused(rule: Rule, message: str) -> None:
    with pytest.raises(InvalidJobError) as refusal:
        read_rule(rule)
    assert refusal.value.message == message


def test_an_interval_may_be_a_duration_and_needs_no_zone() -> None:
    fields = read_rule(Rule(interval=timedelta(hours=1, minutes=30)))
    assert (fields["interval"], fields["zone"]) == ("5400s", "UTC")


def test_a_zone_may_be_one() -> None:
    assert read_rule(Rule(cron="* * * * *", tz=ZoneInfo("Asia/Tokyo")))["zone"] == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("due_at", "run_at"),
        ("recurrence.zone", "tz"),
        ("recurrence.start", "start_from"),
        ("recurrence.count", "count"),
        ("recurrence", "cron"),
        ("payload", "payload"),
    ],
)
def test_refusals_use_the_names_of_this_entrance(inner: str, outer: str) -> None:
    with pytest.raises(InvalidJobError) as refusal, outer_names(Rule(cron="* * * * *")):
        raise InvalidJobError(inner, "is wrong")
    assert (refusal.value.field, refusal.value.message) == (outer, f"{outer} is wrong")
