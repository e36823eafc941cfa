"""A payload: any JSON value that every store can keep."""

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from tests.unit.jobs.arbitrary import PAYLOADS, always

from rota.errors import InvalidJobError
from rota.jobs.fields import MAX_DEPTH, MAX_PAYLOAD_BYTES, MOST_AT_A_GLANCE, read_payload


class Colour(StrEnum):
    RED = "red"


class OddNumber(int):
    """A number of one's own, which JSON cannot say."""


def refused(payload: Any) -> str:
    with pytest.raises(InvalidJobError) as refusal:
        read_payload(payload)
    assert refusal.value.field == "payload"
    return refusal.value.reason


def nested(depth: int, of: type = list) -> Any:
    payload: Any = 1
    for _ in range(depth):
        payload = [payload] if of is list else {"a": payload}
    return payload


@always
@given(PAYLOADS)
def test_any_json_value_is_kept_as_it_is(payload: Any) -> None:
    kept = read_payload(payload)
    assert json.dumps(kept) == json.dumps(payload)


def test_a_payload_is_copied() -> None:
    payload: dict[str, Any] = {"a": [1]}
    kept = read_payload(payload)
    payload["a"].append(2)
    assert kept == {"a": [1]}


def test_values_that_json_writes_differently_are_kept_as_json_has_them() -> None:
    assert read_payload((1, {"colour": Colour.RED})) == [1, {"colour": "red"}]


@pytest.mark.parametrize("character", ["a", "é", "☃", "🌍", '"', "\\", "\n", "/"])
def test_its_size_is_the_bytes_of_compact_json(character: str) -> None:
    def compact(payload: Any) -> int:
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
        return len(text.encode())

    count, rest = divmod(MAX_PAYLOAD_BYTES - 8, compact(character) - 2)
    payload = {"a": character * count + "x" * rest}
    assert compact(payload) == MAX_PAYLOAD_BYTES
    assert read_payload(payload) == payload
    too_large = "must not be larger than 65536 bytes of JSON"
    assert refused({"a": character * count + "x" * (rest + 1)}) == too_large


def test_many_small_values_are_counted_too() -> None:
    assert len(read_payload([1] * 32_767)) == 32_767
    assert "65536 bytes" in refused([1] * 32_768)
    assert "65536 bytes" in refused([0] * 10**6)
    assert "65536 bytes" in refused({str(number): 0 for number in range(20_000)})


@pytest.mark.parametrize("of", [list, dict])
def test_it_may_be_nested_only_so_deep(of: type) -> None:
    assert read_payload(nested(MAX_DEPTH, of)) == nested(MAX_DEPTH, of)
    assert refused(nested(MAX_DEPTH + 1, of)) == "must not be nested deeper than 64 levels"
    assert refused(nested(100_000, of)) == "must not be nested deeper than 64 levels"


def test_a_payload_that_contains_itself_is_refused_at_once() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "nested" in refused(circle)
    twice: Any = [0]
    for _ in range(60):
        twice = [twice, twice]
    assert "65536 bytes" in refused(twice)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (float("nan"), "neither NaN nor infinities"),
        ([float("inf")], "neither NaN nor infinities"),
        ({"a": -float("inf")}, "neither NaN nor infinities"),
        (2**63, "integers of more than 64 bits"),
        ([-(2**63) - 1], "integers of more than 64 bits"),
        ("a\x00b", "the character NUL"),
        ({"\x00": 1}, "the character NUL"),
        ("\\\x00", "the character NUL"),
        ("\ud800", "halves of surrogate pairs"),
        ({"\udfff": 1}, "halves of surrogate pairs"),
        ({1: 2}, "a key is a text and not int"),
        ({None: 2}, "a key is a text and not NoneType"),
        (datetime(2026, 1, 1, tzinfo=UTC), "no form for datetime"),
        ([{"a": {1, 2}}], "no form for set"),
        (b"bytes", "no form for bytes"),
        (OddNumber(3), "must be JSON: "),
    ],
)
def test_a_payload_that_some_store_would_change_is_refused(payload: Any, reason: str) -> None:
    assert reason in refused(payload)
    assert reason in refused({"usual": 1, "unusual": payload})


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "u0000", "\x01"])
def test_text_that_only_looks_like_nul_is_kept(text: str) -> None:
    assert read_payload([text]) == [text]
    assert read_payload({text: text}) == {text: text}


def test_the_outermost_numbers_are_kept() -> None:
    numbers = [-(2**63), 2**63 - 1, 0, -0.0, 1.7976931348623157e308, 5e-324, True, None]
    assert read_payload(numbers) == numbers
    named = {str(place): number for place, number in enumerate(numbers)}
    assert repr(read_payload(named)) == repr(named)


def test_many_fields_are_kept_as_few_are() -> None:
    many = {f"field {number}": number for number in range(MOST_AT_A_GLANCE + 1)}
    assert read_payload(many) == many
