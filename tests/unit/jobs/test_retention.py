"""How long things are kept: rules, what expires, and the text people write."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.errors import InvalidInputError
from rota.jobs import Ending, JobStatus
from rota.jobs.retention import (
    DEFAULT_KEEP,
    FOREVER,
    KEEP_EVERYTHING,
    Expiry,
    Fate,
    Keep,
    Retention,
    RetentionRule,
    format_keep,
    format_kept,
    parse_keep,
    read_kept,
    removal_at,
)
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)


def rule(tenant: str | None = None, kind: str | None = None, **keep: timedelta) -> RetentionRule:
    return RetentionRule(tenant=tenant, kind=kind, keep=Keep(**keep))


def test_each_field_comes_from_the_narrowest_rule_that_has_it() -> None:
    retention = Retention(
        DEFAULT_KEEP,
        [
            rule(ended=1 * DAY),
            rule(kind="mail", ended=2 * DAY, dead=2 * DAY, results=2 * DAY),
            rule("b", ended=3 * DAY, dead=3 * DAY),
            rule("b", "mail", ended=4 * DAY),
        ],
    )
    found = retention.keep_for("b", "mail")
    assert (found.ended, found.dead, found.results) == (4 * DAY, 3 * DAY, 2 * DAY)
    assert found.audit == DEFAULT_KEEP.audit
    assert retention.keep_for("a", "mail").ended == 2 * DAY
    assert retention.keep_for("a").ended == DAY
    assert retention.job_ages() == [90 * DAY, *(it * DAY for it in (30, 4, 3, 2, 1))]


@pytest.mark.parametrize(
    ("status", "ending", "kept_days"),
    [
        (JobStatus.COMPLETED, None, 30),
        (JobStatus.FAILED, Ending.EXHAUSTED, 90),
        (JobStatus.FAILED, Ending.LOST, 90),
        (JobStatus.FAILED, Ending.DISCARDED, 30),
        (JobStatus.FAILED, Ending.CANCELLED, 30),
        (JobStatus.BLOCKED, None, 90),
        (JobStatus.BLOCKED, Ending.CANCELLED, 30),
        (JobStatus.READY, None, None),
    ],
)
def test_a_job_is_removed_after_the_time_of_its_ending(
    status: JobStatus, ending: Ending | None, kept_days: int | None
) -> None:
    job = a_job(status=status, ending=ending, updated_at=NOW)
    retention = Retention(DEFAULT_KEEP)
    at = removal_at(job, retention)
    assert at == (None if kept_days is None else NOW + kept_days * DAY)
    expires = Expiry(retention, NOW + 91 * DAY).judge(job)
    assert expires == Fate(is_removed=kept_days is not None)
    if at is not None:
        assert Expiry(retention, at).judge(job) == Fate()


def test_effects_outlive_every_job_that_may_ask_for_them() -> None:
    retention = Retention(
        DEFAULT_KEEP, [rule("a", "slow", dead=400 * DAY), rule("b", dead=FOREVER)]
    )
    assert retention.effects_for("other") == 120 * DAY
    assert retention.effects_for("a") == 430 * DAY
    assert retention.effects_for("b") == FOREVER


@pytest.mark.parametrize(
    ("text", "keep"),
    [
        ("", Keep()),
        ("forever", KEEP_EVERYTHING),
        (" ended=7d , results=12h ", Keep(ended=7 * DAY, results=DAY / 2)),
        ("dead=forever,audit=1d12h", Keep(dead=FOREVER, audit=1.5 * DAY)),
    ],
)
def test_rules_are_read_as_people_write_them(text: str, keep: Keep) -> None:
    assert parse_keep(text) == keep
    assert parse_keep(format_keep(keep)) == keep


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7d", 'keep: "7d" is not valid; write NAME=TIME, such as ended=30d, with one of ended'),
        ("done=7d", 'keep: "done=7d" is not valid'),
        ("ended=soon", "ended: 'soon' is not a length of time; write 30d, 12h or forever"),
        ("ended=-1d", "ended: '-1d' is not a length of time"),
        ("ended=9999999d", "ended must be at most 500000 days, or forever"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match="^" + said.replace("(", r"\(")):
        parse_keep(text)


def test_rules_that_say_nothing_or_too_much_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="ended is missing, and so are dead"):
        rule("a")
    with pytest.raises(InvalidInputError, match="audit does not belong to a kind"):
        rule("a", "mail", audit=DAY)
    for tenant, kind, field in (
        ("a b", None, "tenant"),
        (None, "a b", "kind"),
        ("", "m", "tenant"),
    ):
        with pytest.raises(InvalidInputError, match=f"{field} must be 1 to 200 of the characters"):
            rule(tenant, kind, ended=DAY)
    with pytest.raises(InvalidInputError, match="ended must not be negative"):
        Keep(ended=-DAY)


def test_effects_outlive_jobs_that_are_kept_longer_when_they_end_well() -> None:
    retention = Retention(Keep(ended=50 * DAY, dead=20 * DAY, effects=7 * DAY))
    assert retention.effects_for("any") == 57 * DAY


def test_rules_that_say_the_same_in_another_order_are_the_same() -> None:
    rules = [rule("b", ended=DAY), rule(kind="mail", dead=DAY), rule("a", ended=DAY)]
    one, other = Retention(DEFAULT_KEEP, rules), Retention(DEFAULT_KEEP, rules[::-1])
    assert one.fingerprint == other.fingerprint
    changed = Retention(DEFAULT_KEEP, [*rules[:-1], rule("a", ended=2 * DAY)])
    assert len({one.fingerprint, changed.fingerprint, Retention(DEFAULT_KEEP).fingerprint}) == 3


def test_nothing_of_a_job_expires_before_more_than_its_time_has_passed() -> None:
    keep = Keep(ended=3 * DAY, results=DAY, attempts=2 * DAY)
    job = a_job(tenant="a", status=JobStatus.COMPLETED, updated_at=NOW)

    def fate(age: timedelta, tenant: str | None = None) -> Fate:
        return Expiry(Retention(keep), NOW + age, tenant=tenant).judge(job)

    assert fate(DAY) == Fate()
    assert fate(DAY + TICK) == fate(2 * DAY) == Fate(loses_result=True)
    assert fate(2 * DAY + TICK) == fate(3 * DAY) == Fate(loses_result=True, loses_attempts=True)
    assert fate(3 * DAY + TICK) == fate(3 * DAY + TICK, "a") == Fate(is_removed=True)
    assert fate(3 * DAY + TICK, "b") == Fate()


def test_a_job_that_would_be_removed_beyond_the_calendar_is_kept() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    ended = a_job(status=JobStatus.COMPLETED, updated_at=last)
    assert removal_at(ended, Retention(DEFAULT_KEEP)) is None
    assert removal_at(replace(ended, updated_at=NOW), Retention(DEFAULT_KEEP)) == NOW + 30 * DAY
    assert removal_at(replace(ended, updated_at=NOW), Retention()) is None


def test_a_length_of_time_is_written_in_its_units() -> None:
    parts = timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)
    assert format_kept(parts) == "1d2h3m4s5ms"
    assert format_kept(timedelta(0)) == "0s"
    assert format_kept(7 * DAY) == "7d"
    assert format_kept(FOREVER) == "forever"
    assert read_kept("500000d", "ended") == timedelta(days=500_000)
    with pytest.raises(InvalidInputError, match="ended must be at most 500000 days, or forever"):
        read_kept("500001d", "ended")
