"""Where the fields of a document may be; no server is asked."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from rota.errors import InvalidInputError
from rota.poller.mongo import MongoCollectionStore

FIELDS = ("sleep_until_field", "interval_field", "repeat_until_field", "auto_remove_field")


@pytest.fixture
async def collection() -> AsyncIterator["AsyncCollection[Any]"]:
    async with AsyncMongoClient[Any]("mongodb://127.0.0.1:1/", connect=False) as client:
        yield client["any"]["jobs"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "path",
    ["", ".", "a.", ".a", "a..b", "$where", "a.$b", "a b", "a-b", "a\0b", "é", "a.b\n", 5, None],
)
async def test_a_path_that_is_none_is_refused(
    collection: "AsyncCollection[Any]", field: str, path: Any
) -> None:
    options: Any = {field: path}
    with pytest.raises(InvalidInputError) as refusal:
        MongoCollectionStore(collection, **options)
    assert refusal.value.details["field"] == field


@pytest.mark.parametrize("path", ["a", "a.b", "_a.b_1.C", "cron.sleepUntil", "a.0"])
async def test_a_path_leads_through_names(collection: "AsyncCollection[Any]", path: str) -> None:
    store = MongoCollectionStore(collection, sleep_until_field=path)
    assert store._order[0] == (path, 1)


@pytest.mark.parametrize("path", ["_id", "_id.at"])
async def test_no_path_leads_into_the_id(collection: "AsyncCollection[Any]", path: str) -> None:
    with pytest.raises(InvalidInputError, match="_id"):
        MongoCollectionStore(collection, sleep_until_field=path)


@pytest.mark.parametrize(("one", "other"), [("a", "a"), ("a", "a.b"), ("a.b", "a.b.c")])
async def test_no_path_is_or_leads_to_another(
    collection: "AsyncCollection[Any]", one: str, other: str
) -> None:
    with pytest.raises(InvalidInputError, match="another field"):
        MongoCollectionStore(collection, sleep_until_field=one, interval_field=other)
    with pytest.raises(InvalidInputError, match="another field"):
        MongoCollectionStore(collection, repeat_until_field=other, auto_remove_field=one)


@pytest.mark.parametrize("condition", ["a", 5, [("a", 1)]])
async def test_a_condition_is_a_filter(collection: "AsyncCollection[Any]", condition: Any) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        MongoCollectionStore(collection, condition)
    assert refusal.value.details["field"] == "condition"


async def test_an_option_that_does_not_exist_is_refused(
    collection: "AsyncCollection[Any]",
) -> None:
    options: Any = {"sleep_field": "a"}
    with pytest.raises(TypeError, match="sleep_field"):
        MongoCollectionStore(collection, **options)
