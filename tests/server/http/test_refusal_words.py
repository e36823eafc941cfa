"""What does not fit is answered with what would fit, in words."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta, inspect
from tests.server.service import JOBS, Visit

from rota.jobs.misfits import IN_WORDS
from rota.server.api import EVERY_ROUTE
from rota.server.http.request import refuse

QUIET = "/api/v1/gates/quiet-hours"
HOURS = {"start": "22:00", "end": "07:00", "zone": "Europe/London"}
STRATEGIES = "FIXED, LINEAR, EXPONENTIAL, LADDER"


def job_with(strategy: str) -> dict[str, Any]:
    return {"name": "a", "queue": "q", "retry_policy": {"backoff_strategy": strategy}}


async def test_a_value_that_is_not_allowed_is_answered_with_those_that_are(
    service: Visit,
) -> None:
    answer = await service.client.post(JOBS, json=job_with("CUBIC"))
    assert answer.json()["message"] == (
        f"retry_policy.backoff_strategy must be one of {STRATEGIES}, got 'CUBIC'"
    )


async def test_they_are_named_within_lists_too(service: Visit) -> None:
    bulk = {"jobs": [job_with("FIXED"), job_with("CUBIC")]}
    answer = await service.client.post(f"{JOBS}/bulk", json=bulk)
    assert answer.json()["message"] == (
        f"jobs[1].retry_policy.backoff_strategy must be one of {STRATEGIES}, got 'CUBIC'"
    )
    answer = await service.client.put(QUIET, json=HOURS | {"weekdays": ["mon", "someday"]})
    assert answer.json()["message"] == (
        "weekdays[1] must be one of fri, mon, sat, sun, thu, tue, wed, got 'someday'"
    )


async def test_a_pattern_mismatch_is_explained_in_words(service: Visit) -> None:
    answer = await service.client.put(QUIET, json=HOURS | {"start": "25:00"})
    assert answer.json()["message"] == "start must be a time of day, such as 22:00"


class Bar(msgspec.Struct):
    named: dict[str, Literal["red", "blue"]] = {}
    bare: Annotated[str, Meta(pattern="^x$")] = "x"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"named": {"a": "grey"}}, "must be one of the values allowed, got 'grey'"),
        ({"bare": "y"}, "must be a text matching regex '^x$'"),
    ],
)
def test_where_nothing_is_known_it_says_what_it_can(given: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Bar)
    assert str(refuse(caught.value, "body", Bar)).endswith(said)


def find_patterns(known: inspect.Type, *, words: bool = False) -> Iterator[tuple[str, bool]]:
    """Every pattern within a type, and whether there are words beside it."""
    if isinstance(known, inspect.Metadata):
        yield from find_patterns(known.type, words=IN_WORDS in (known.extra or {}))
    elif isinstance(known, inspect.StrType) and known.pattern is not None:
        yield known.pattern, words
    elif isinstance(known, inspect.UnionType):
        for part in known.types:
            yield from find_patterns(part, words=words)
    elif isinstance(known, inspect.StructType):
        for field in known.fields:
            yield from find_patterns(field.type)
    elif isinstance(known, inspect.ListType | inspect.VarTupleType):
        yield from find_patterns(known.item_type)


def test_every_pattern_of_a_request_has_words() -> None:
    found = [
        (pattern, words)
        for route in EVERY_ROUTE
        for kind in (route.body, route.query)
        for pattern, words in find_patterns(inspect.type_info(kind))
    ]
    assert len(found) > 5
    assert [pattern for pattern, words in found if not words] == []
