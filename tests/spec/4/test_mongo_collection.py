"""Any collection of the user's own, side by side with mongodb-cron."""

import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from typing import Any

import pytest
from bson.codec_options import CodecOptions
from bson.errors import InvalidBSON
from pymongo import AsyncMongoClient, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import AutoReconnect
from tests.servers.mongo import MongoServer
from tests.unit.poller.polling import DAY, HOUR, MINUTE, NOW, SECOND, Stage

from rota.clock import in_flight
from rota.errors import InvalidInputError, StoreError, StoreUnavailableError
from rota.poller import JobUpdate
from rota.poller.mongo import MongoCollectionStore
from rota.testing import VirtualClock


@pytest.fixture
async def collection(mongo_url: str) -> AsyncIterator["AsyncCollection[Any]"]:
    """An empty collection; dates come back aware, so that they can be compared."""
    async with AsyncMongoClient[Any](mongo_url) as client:
        found = client.get_default_database()["jobs"]
        yield found.with_options(codec_options=CodecOptions(tz_aware=True, tzinfo=UTC))


async def polled(store: MongoCollectionStore, duration: timedelta = SECOND) -> Stage:
    """A stage after a poller has polled the collection for so long."""
    stage = Stage(store, VirtualClock(NOW))
    await stage.play(duration, idle_delay=SECOND, lock_duration=MINUTE)
    await stage.close()
    return stage


@pytest.mark.parametrize("fields", [{}, {"sleepUntil": None}, {"sleepUntil": NOW + HOUR}])
async def test_documents_that_do_not_sleep_or_sleep_longer_are_left_alone(
    collection: "AsyncCollection[Any]", fields: dict[str, Any]
) -> None:
    await collection.insert_one({"_id": 1, **fields})
    stage = await polled(MongoCollectionStore(collection))
    assert stage.jobs == []
    assert await collection.find_one({}) == {"_id": 1, **fields}


async def test_a_condition_has_to_be_met_as_well(collection: "AsyncCollection[Any]") -> None:
    await collection.insert_many(
        [{"_id": n, "sleepUntil": NOW, "is": "odd" if n % 2 else "even"} for n in range(4)]
    )
    stage = await polled(MongoCollectionStore(collection, {"is": "odd"}))
    assert [job.id for job in stage.jobs] == [1, 3]
    assert await collection.count_documents({"sleepUntil": NOW}) == 2


async def test_fields_may_lie_anywhere_and_all_others_are_kept(
    collection: "AsyncCollection[Any]",
) -> None:
    document = {
        "_id": "a",
        "customer": {"name": "Ada", "tags": ["x"]},
        "meta": {"cron": {"at": NOW, "every": "0 * * * *", "to": NOW + DAY, "note": 1}, "x": 2},
        "done": {"remove": True},
    }
    await collection.insert_one(dict(document))
    store = MongoCollectionStore(
        collection,
        sleep_until_field="meta.cron.at",
        interval_field="meta.cron.every",
        repeat_until_field="meta.cron.to",
        auto_remove_field="done.remove",
    )
    stage = await polled(store)
    (job,) = stage.jobs
    assert job.payload == document
    found = (job.sleep_until, job.interval, job.repeat_until, job.auto_remove)
    assert found == (NOW, "0 * * * *", NOW + DAY, True)
    document["meta"]["cron"]["at"] = NOW + HOUR  # type: ignore[index]  # it is a document
    assert await collection.find_one({}) == document


async def test_a_document_with_the_default_fields_is_read_and_written(
    collection: "AsyncCollection[Any]",
) -> None:
    document = {"_id": 1, "sleepUntil": NOW, "interval": "0 * * * *", "repeatUntil": NOW + DAY}
    await collection.insert_many([{**document, "autoRemove": True}, {"_id": 2, "sleepUntil": NOW}])
    store = MongoCollectionStore(collection)
    job, other = [await store.lock_next(NOW + MINUTE, NOW) for _ in range(2)]
    assert job is not None
    assert other is not None
    found = (job.sleep_until, job.interval, job.repeat_until, job.auto_remove)
    assert found == (NOW, "0 * * * *", NOW + DAY, True)
    assert (other.interval, other.repeat_until, other.auto_remove) == (None, None, False)
    assert await store.update(other, JobUpdate(sleep_until=NOW + HOUR, auto_remove=True), NOW)
    left = await collection.find_one({"_id": 2})
    assert left == {"_id": 2, "sleepUntil": NOW + HOUR, "autoRemove": True}


async def test_dates_without_a_zone_are_in_utc(mongo_url: str) -> None:
    async with AsyncMongoClient[Any](mongo_url) as client:
        naive = client.get_default_database()["naive"]
        at = NOW.replace(tzinfo=None)
        await naive.insert_one(
            {"_id": 1, "sleepUntil": at, "interval": "0 * * * *", "repeatUntil": at}
        )
        job = await MongoCollectionStore(naive).lock_next(NOW + MINUTE, NOW)
    assert job is not None
    assert (job.sleep_until, job.repeat_until) == (NOW, NOW)
    assert job.payload["sleepUntil"] == at


@pytest.mark.parametrize(
    "fields",
    [
        {"interval": 5},
        {"interval": []},
        {"interval": "@daily", "repeatUntil": "x"},
        {"interval": "@daily", "sleepUntil": "soon"},
    ],
)
async def test_a_document_that_cannot_be_understood_sleeps_for_good(
    collection: "AsyncCollection[Any]", fields: dict[str, Any]
) -> None:
    await collection.insert_one({"_id": 1, "sleepUntil": NOW, "autoRemove": True, **fields})
    stage = await polled(MongoCollectionStore(collection))
    assert [type(error) for error in stage.errors] == [InvalidInputError]
    found = await collection.find_one({})
    assert found == {"_id": 1, "autoRemove": True, **fields, "sleepUntil": None}


async def test_a_lock_is_held_to_the_millisecond(collection: "AsyncCollection[Any]") -> None:
    store = MongoCollectionStore(collection)
    await collection.insert_one({"_id": 1, "sleepUntil": NOW})
    until = NOW + MINUTE + timedelta(microseconds=123_456)
    job = await store.lock_next(until, NOW + timedelta(microseconds=999))
    assert job is not None
    found = await collection.find_one({})
    assert found == {"_id": 1, "sleepUntil": NOW + MINUTE + timedelta(milliseconds=123)}
    assert await store.update(job, JobUpdate(), NOW)
    assert await store.update(job, JobUpdate(sleep_until=NOW), NOW)
    assert not await store.update(job, JobUpdate(), NOW)


async def test_a_hook_may_reschedule_or_remove_its_document_itself(
    collection: "AsyncCollection[Any]",
) -> None:
    await collection.insert_many(
        [{"_id": n, "sleepUntil": NOW, "interval": "0 * * * *"} for n in (1, 2)]
    )
    stage = Stage(MongoCollectionStore(collection), VirtualClock(NOW))

    async def take_over(job: Any) -> None:
        with in_flight():
            if job.id == 1:
                await collection.update_one({"_id": 1}, {"$set": {"sleepUntil": NOW + 2 * HOUR}})
            else:
                await collection.delete_one({"_id": 2})

    stage.work = take_over
    await stage.play(SECOND, idle_delay=SECOND)
    await stage.close()
    assert stage.errors == []
    found = [document async for document in collection.find({})]
    assert found == [{"_id": 1, "sleepUntil": NOW + 2 * HOUR, "interval": "0 * * * *"}]


async def test_the_index_for_the_next_document_is_made_once(
    collection: "AsyncCollection[Any]",
) -> None:
    store = MongoCollectionStore(collection, sleep_until_field="cron.at")
    name = await store.create_index()
    assert await store.create_index() == name
    made = await collection.index_information()
    assert made[name]["key"] == [("cron.at", 1), ("_id", 1)]


async def test_a_lock_is_one_find_and_modify(collection: "AsyncCollection[Any]") -> None:
    await collection.insert_many([{"_id": n, "sleepUntil": NOW} for n in range(3)])
    store, database = MongoCollectionStore(collection), collection.database
    await store.lock_next(NOW + MINUTE, NOW)  # the first also asks the server what it is
    await database.command("profile", 2)
    assert await store.lock_next(NOW + MINUTE, NOW) is not None
    await database.command("profile", 0)
    seen = database["system.profile"].find({"ns": f"{database.name}.{collection.name}"})
    assert [next(iter(it["command"])) async for it in seen] == ["findAndModify"]


async def test_a_lock_goes_by_the_index_that_users_have(
    collection: "AsyncCollection[Any]",
) -> None:
    """An index on the field alone, as for mongodb-cron: the backlog is not sorted for a lock."""
    await collection.create_index([("sleepUntil", 1)])
    documents = [{"_id": n, "sleepUntil": NOW - n * SECOND} for n in range(500)]
    await collection.insert_many(documents)
    store = MongoCollectionStore(collection)
    locked = await store.lock_next(NOW + MINUTE, NOW)
    assert locked is not None
    assert locked.id == 499
    lock: dict[str, Any] = {
        "findAndModify": collection.name,
        "query": store._awake(NOW),
        "sort": dict(store._order),
        "update": {"$set": {"sleepUntil": NOW}},
    }
    answer = await collection.database.command({"explain": lock})
    assert answer["executionStats"]["totalDocsExamined"] <= 2
    assert '"SORT"' not in str(answer).replace("'", '"')


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_lock_survives_the_death_of_its_server(
    own_mongo: MongoServer, lone_mongo: MongoServer, is_alone: bool
) -> None:
    """Whatever the write concern of the collection: here it asks for no acknowledgement at all."""
    server = lone_mongo if is_alone else own_mongo
    async with AsyncMongoClient[Any](server.url) as client:
        jobs = client["mine"]["jobs"]
        await jobs.insert_one({"_id": 1, "sleepUntil": NOW})
        careless = jobs.with_options(write_concern=WriteConcern(w=1, j=False))
        store = MongoCollectionStore(careless)
        locked = await store.lock_next(NOW + MINUTE, NOW)
        assert locked is not None
        asked = {"w": 1, "j": True} if is_alone else {"w": "majority", "j": True}
        assert store._collection.write_concern.document == asked
        server.kill()
    server.restart()
    async with AsyncMongoClient[Any](server.url) as client:
        store = MongoCollectionStore(client["mine"]["jobs"])
        assert await store.lock_next(NOW + HOUR, NOW) is None
        assert await store.remove(locked)


async def test_a_server_that_is_away_is_an_error_of_the_store(
    collection: "AsyncCollection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose_connection(*_: object, **__: object) -> None:
        raise AutoReconnect("connection closed")

    monkeypatch.setattr(AsyncCollection, "find_one_and_update", lose_connection)
    with pytest.raises(StoreUnavailableError, match=r"jobs is not available: connection closed"):
        await MongoCollectionStore(collection).lock_next(NOW + MINUTE, NOW)


async def test_a_refusal_of_the_server_is_a_store_error(
    collection: "AsyncCollection[Any]",
) -> None:
    store = MongoCollectionStore(collection, {"$nonsense": 1})
    with pytest.raises(StoreError, match="refuses"):
        await store.lock_next(NOW + MINUTE, NOW)


async def test_a_lock_that_an_index_of_the_user_does_not_allow_is_an_error_of_the_store(
    collection: "AsyncCollection[Any]",
) -> None:
    await collection.create_index([("sleepUntil", 1), ("rooms", 1)], unique=True)
    await collection.insert_many(
        [{"_id": n, "sleepUntil": NOW + n * MINUTE, "rooms": [n, 7]} for n in range(2)]
    )
    with pytest.raises(StoreError, match="refuses"):
        await MongoCollectionStore(collection).lock_next(NOW + MINUTE, NOW)


async def test_a_document_that_cannot_be_read_is_an_error_of_the_store(
    collection: "AsyncCollection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find_nonsense(*_: object, **__: object) -> None:
        raise InvalidBSON("no text")

    monkeypatch.setattr(AsyncCollection, "find_one_and_update", find_nonsense)
    with pytest.raises(StoreError, match="no text"):
        await MongoCollectionStore(collection).lock_next(NOW + MINUTE, NOW)


@pytest.mark.process
def test_without_the_driver_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pymongo'] = None\n"
        "import rota.poller\n"
        "from rota.errors import MissingExtraError\n"
        "try:\n    import rota.poller.mongo\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'rota[mongo]'" in found.stdout
