"""Single fields of a job."""

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from rota.errors import InvalidJobError
from rota.jobs.fields import (
    read_dependencies,
    read_flag,
    read_id,
    read_instant,
    read_name,
    read_plain_queue,
    read_priority,
    read_queue,
    read_word,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def refused(read: Any, *arguments: Any) -> str:
    with pytest.raises(InvalidJobError) as refusal:
        read(*arguments)
    assert refusal.value.details == {"field": refusal.value.field, "reason": refusal.value.reason}
    assert refusal.value.message == f"{refusal.value.field} {refusal.value.reason}"
    return refusal.value.message


@pytest.mark.parametrize(
    "name", ["a", " ", "Send the report", "naïve 🌍", "a\u00a0b", "x" * 255, "🌍" * 255]
)
def test_a_name_is_any_printable_text(name: str) -> None:
    assert read_name(name) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "name must have 1 to 255 characters, got 0"),
        ("🌍" * 256, "name must have 1 to 255 characters, got 256"),
        ("a\nb", r"name must not hold control characters, got 'a\nb'"),
        ("a\x00", r"name must not hold control characters, got 'a\x00'"),
        ("\x9b", r"name must not hold control characters, got '\x9b'"),
        ("\u2028", r"name must not hold control characters, got '\u2028'"),
        ("\ud800", r"name must not hold control characters, got '\ud800'"),
        (None, "name must be a text, got nothing"),
        (5, "name must be a text, got int"),
    ],
)
def test_another_name_is_refused(name: Any, message: str) -> None:
    assert refused(read_name, name) == message


def test_a_queue_is_a_short_word() -> None:
    for queue in ("a", "Mail_2", "_", "9" * 64):
        assert read_queue(queue) == read_plain_queue(queue) == queue
    rule = "queue must be 1 to 64 of the characters a-z, A-Z, 0-9"
    for queue in ("", "a" * 65, "a b", "mail\n", "é", "٣", "a/b"):
        shown = repr(queue if len(queue) <= 60 else f"{queue[:60]}…")
        assert refused(read_plain_queue, queue) == f"{rule} and _, got {shown}"
        assert refused(read_queue, queue) == f"{rule}, _, ., : and -, got {shown}"
    assert refused(read_queue, None) == "queue must be a text, got nothing"
    assert refused(read_plain_queue, None) == "queue must be a text, got nothing"


def test_our_own_entrances_allow_more_in_the_name_of_a_queue() -> None:
    for queue in ("mail-out", "eu.west", "a:b", "-"):
        assert read_queue(queue) == queue
        assert refused(read_plain_queue, queue).startswith("queue must be 1 to 64")


def test_a_kind_or_tenant_is_a_word_safe_everywhere() -> None:
    for word in ("reminder.send", "guild-7", "a:b_c", "x" * 200):
        assert read_word(word, "kind") == word
    for word in ("", "x" * 201, "a b", "a/b", "kind\n", "é"):
        assert refused(read_word, word, "tenant").startswith("tenant must be 1 to 200 of")


def test_a_word_that_is_a_name_elsewhere_stays_what_it_was() -> None:
    class Place(StrEnum):
        HERE = "here"

    assert [type(read_word("here", "kind")), type(read_queue("here"))] == [str, str]
    assert read_word(Place.HERE, "kind") is Place.HERE
    assert read_queue(Place.HERE) is Place.HERE


def test_a_priority_is_a_number_from_1_to_10() -> None:
    assert [read_priority(number) for number in range(1, 11)] == list(range(1, 11))
    assert refused(read_priority, 0) == "priority must be from 1 to 10, got 0"
    assert refused(read_priority, 11) == "priority must be from 1 to 10, got 11"
    assert refused(read_priority, 10**5000).endswith("got a number of more than 64 bits")
    for value, name in ((True, "bool"), (5.0, "float"), ("5", "str"), (None, "nothing")):
        assert refused(read_priority, value) == f"priority must be an integer, got {name}"


def test_a_flag_is_nothing_but_true_or_false() -> None:
    assert [read_flag(value, "auto_remove") for value in (True, False)] == [True, False]
    assert refused(read_flag, 1, "auto_remove") == "auto_remove must be true or false, got int"


@pytest.mark.parametrize(
    "value", [NOON, NOON.astimezone(timezone(timedelta(hours=9))), "2026-05-01T14:00:00+02:00"]
)
def test_an_instant_is_a_datetime_or_text_and_kept_in_utc(value: Any) -> None:
    found = read_instant(value, "due_at")
    assert found == NOON
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (NOON.replace(tzinfo=None), "must be an instant with an offset from UTC"),
        ("2026-05-01T12:00:00", "must be an instant with an offset from UTC"),
        ("noon", "must be an instant with an offset from UTC"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=9))), "must be an instant of the"),
        (5, "must be an instant, got int"),
    ],
)
def test_other_instants_are_refused(value: Any, reason: str) -> None:
    assert refused(read_instant, value, "due_at").startswith(f"due_at {reason}")


def test_an_id_is_a_uuid() -> None:
    assert read_id(UUID(JOB_ID), "id") == read_id(JOB_ID.upper(), "id") == JOB_ID
    assert refused(read_id, "17", "id").startswith("id must be a UUID, such as")
    assert refused(read_id, 17, "id") == "id must be a UUID, got int"


def test_dependencies_are_up_to_50_different_ids() -> None:
    ids = [str(UUID(int=number)) for number in range(51)]
    assert read_dependencies([]) == read_dependencies(()) == ()
    assert read_dependencies(ids[:50]) == tuple(ids[:50])
    assert refused(read_dependencies, ids) == "dependencies must not be more than 50, got 51"
    assert refused(read_dependencies, [ids[0]] * 2) == "dependencies must not name a job twice"
    assert refused(read_dependencies, [ids[0], "x"]).startswith("dependencies[1] must be a UUID")
    for value, name in (("ab", "str"), (b"", "bytes"), ({}, "dict"), (None, "nothing"), (5, "int")):
        assert refused(read_dependencies, value) == f"dependencies must be a list, got {name}"
