"""A process without an app checks payloads by the JSON Schema that the app has stored."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, IntFlag
from typing import Any, Literal
from uuid import UUID

import msgspec
import pytest

from rota import Rota
from rota.errors import InvalidArgumentsError
from rota.ops.kinds import check_schema, publish_kinds, read_checks
from rota.stores.memory import MemoryStore


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(Enum):
    SMALL = "small"

    @classmethod
    def _missing_(cls, value: object) -> "Size":
        return cls(str(value).lower())


class Access(IntFlag):
    READ = 1
    WRITE = 2


class Node(msgspec.Struct):
    size: Size
    inner: "Node | None" = None


@dataclass
class Address:
    street: str
    number: int = 1


class Card(msgspec.Struct, tag="card"):
    digits: str


class Transfer(msgspec.Struct, tag="transfer"):
    accounts: list[int]


app = Rota("memory://")


@app.task(name="shop.order")
def order(  # noqa: PLR0917 - one parameter of each sort
    customer: int,
    colour: Colour = Colour.RED,
    address: Address | None = None,
    payment: Card | Transfer | None = None,
    total: Decimal = Decimal(0),
    at: datetime | None = None,
    within: timedelta | None = None,
    size: Literal[1, 2, "large"] = 1,
    pair: tuple[int, str] = (1, "a"),
    weights: dict[str, float] | None = None,
    by_number: dict[int, str] | None = None,
    tags: set[str] = frozenset(),  # type: ignore[assignment] # a default must not be mutable
    anything: Any = None,
    reference: UUID | None = None,
    urgent: bool = False,
    body: bytes = b"",
    access: Access | None = None,
    nodes: dict[str, Node] | None = None,
) -> None:
    """Everything that a parameter may be."""


ACCEPTED: list[dict[str, Any]] = [
    {"customer": 7},
    {"customer": 7, "colour": "blue", "size": "large"},
    {"customer": 7, "address": {"street": "Elm"}, "anything": {"a": [1, None]}},
    {"customer": 7, "address": None, "payment": {"type": "card", "digits": "1"}},
    {"customer": 7, "payment": {"type": "transfer", "accounts": [1, 2]}},
    {"customer": 7, "total": "9.90", "at": "2027-03-28T09:00:00Z", "within": "PT5S"},
    {"customer": 7, "total": 9.9, "pair": [2, "b"], "weights": {"a": 1, "b": 1.5}},
    {"customer": 7, "by_number": {"1": "one"}, "tags": ["a"], "urgent": True, "body": "aGk="},
    {"customer": 7, "reference": "01890a5d-ac96-774b-bcce-b302099a8057"},
    {"customer": 7, "access": 3},
    {"customer": 7, "nodes": {"a": {"size": "SMALL", "inner": {"size": "Small"}}}},
    {"customer": {"$output": 0}, "weights": {"$outputs": [0, 2]}},
]
REFUSED: list[tuple[Any, str | None, str]] = [
    ({}, "customer", "is missing"),
    ({"customer": 7, "color": "red"}, "color", "is not known; known are: customer, colour"),
    ({"customer": "7"}, "customer", "must be an integer, got '7'"),
    ({"customer": True}, "customer", "must be an integer, got True"),
    ({"customer": 7.5}, "customer", "must be an integer, got 7.5"),
    ({"customer": 7, "colour": "green"}, "colour", "must be one of 'blue', 'red', got 'green'"),
    ({"customer": 7, "address": {"number": 2}}, "address.street", "is missing"),
    ({"customer": 7, "address": {"street": 1}}, "address.street", "must be a text, got 1"),
    ({"customer": 7, "pair": ["b", "b"]}, "pair[0]", "must be an integer, got 'b'"),
    ({"customer": 7, "weights": {"a": "b"}}, "weights.a", "must be a number, got 'b'"),
    ({"customer": 7, "urgent": 1}, "urgent", "must be true or false, got 1"),
    ({"customer": 7, "tags": "a"}, "tags", "must be a list, got 'a'"),
    (None, None, "must be an object, got None"),
    ([1], None, "must be an object, got [1]"),
]
SCHEMA = order.signature.json_schema()


@pytest.mark.parametrize("payload", ACCEPTED)
def test_what_the_task_accepts_fits_its_schema(payload: dict[str, Any]) -> None:
    order.check_payload(payload)
    check_schema("shop.order", SCHEMA, payload)


@pytest.mark.parametrize(("payload", "argument", "reason"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_path(
    payload: Any, argument: str | None, reason: str
) -> None:
    with pytest.raises(InvalidArgumentsError):
        order.check_payload(payload)
    with pytest.raises(InvalidArgumentsError) as refused:
        check_schema("shop.order", SCHEMA, payload)
    assert refused.value.argument == argument
    assert refused.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "unheard-of"},
        {"type": ["integer", "null"]},
        {"$ref": "#/$defs/absent"},
        {"properties": {"a": {"$ref": "elsewhere"}}},
        {"properties": {"a": True}},
        {"additionalProperties": True},
        {"anyOf": []},
        {"required": None},
        {"enum": None},
        {"properties": {"a": {"$ref": 1}}},
    ],
)
def test_a_schema_of_a_later_version_refuses_nothing(schema: dict[str, Any]) -> None:
    check_schema("later", schema, {"a": 1})


async def test_a_stored_kind_is_checked_by_its_name() -> None:
    async with MemoryStore() as store:
        await publish_kinds(store, {"shop.order": order.describe()})
        checks = await read_checks(store)
        assert list(checks) == ["shop.order"]
        checks["shop.order"]({"customer": 7})
        with pytest.raises(InvalidArgumentsError, match=r"shop\.order: customer: is missing"):
            checks["shop.order"]({})
