"""What does not fit a type, in words of Rota's own."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from rota.jobs.misfits import IN_WORDS, explain_misfit, shorten, suggest_name


class Parcel(msgspec.Struct, forbid_unknown_fields=True):
    weight: int
    sent_at: str | None = None


class Cart(msgspec.Struct, forbid_unknown_fields=True):
    owner: Annotated[str, Meta(max_length=3)]
    parcels: list[Parcel] = []


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({}, "owner", "is missing"),
        ({"owner": 1}, "owner", "must be a text, got an integer"),
        ({"owner": "ada", "parcels": [{}]}, "parcels[0].weight", "is missing"),
        ({"owner": "ada", "parcel": []}, "parcel", "is not known here; did you mean parcels?"),
        ({"owner": "ada", "colour": 1}, "colour", "is not known here"),
        ({"owner": "ada", "": 1}, '""', "is not known here"),
        (
            {"owner": "ada", "parcels": [{"weight": 1, "send_at": "now"}]},
            "parcels[0].send_at",
            "is not known here; did you mean sent_at?",
        ),
        ([], "", "must be an object, got a list"),
    ],
)
def test_the_field_is_named_and_why_it_does_not_fit(given: Any, field: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Cart)
    told = explain_misfit(caught.value, Cart)
    # Places in lists are not numbered by the library: "[...]" stands for any of them.
    assert (told.field.replace("[...]", "[0]"), told.reason) == (field, reason)


def test_only_a_name_that_is_near_is_suggested() -> None:
    assert suggest_name("prioritty", ["priority", "payload"]) == "; did you mean priority?"
    assert suggest_name("zebra", ["priority", "payload"]) == ""
    assert suggest_name("p" * 100_000, ["priority"]) == ""


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Paint(msgspec.Struct):
    colour: Colour
    coats: Literal[1, 2] = 1
    made_at: datetime | None = None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"colour": "green"}, "must be one of red, blue, got 'green'"),
        ({"colour": "red", "coats": 3}, "must be one of 1, 2, got 3"),
        ({"colour": "red", "made_at": "today"}, "is refused: invalid RFC3339 encoded datetime"),
    ],
)
def test_what_is_allowed_is_listed(given: Any, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Paint)
    assert explain_misfit(caught.value, Paint).reason == reason


class Crate(msgspec.Struct):
    parcels: list[Parcel] = []
    code: Annotated[str, Meta(pattern="^[a-z]+$", extra={IN_WORDS: "must be small letters"})] = "a"
    mark: Annotated[str, Meta(pattern="^[A-Z]+$")] = "A"
    codes: tuple[
        Annotated[str, Meta(pattern="^[0-9]$", extra={IN_WORDS: "must be digits"})], ...
    ] = ()
    colours: list[Colour | None] = []
    by_name: dict[str, Colour] = {}
    size: int | None = None
    is_open: bool = False


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"code": "A"}, "must be small letters"),
        ({"mark": "a"}, "must be a text matching regex '^[A-Z]+$'"),
        ({"codes": ["1", "x"]}, "must be digits"),
        ({"colours": ["red", "green"]}, "must be one of red, blue, got 'green'"),
        ({"by_name": {"x": "green"}}, "must be one of the values allowed, got 'green'"),
        ({"size": "5"}, "must be an integer or null, got a text"),
        ({"is_open": 1.5}, "must be true or false, got a number"),
        ({"parcels": {}}, "must be a list, got an object"),
    ],
)
def test_what_would_fit_is_said_in_words(given: Any, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Crate)
    assert explain_misfit(caught.value, Crate).reason == reason


def test_a_long_name_is_cut_after_sixty_characters() -> None:
    assert shorten("n" * 60) == "n" * 60
    assert shorten("n" * 61) == "n" * 60 + "…"
    near = "n" * 60
    assert suggest_name(near + "x" * 99, [near]) == f"; did you mean {near}?"
