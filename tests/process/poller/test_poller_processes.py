"""Processes poll one store: each document once per due time, and none lost to a kill -9."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pymongo import MongoClient
from tests.process.fleet import wait_for
from tests.process.poller.pack import Pack, gathered_pack
from tests.process.programs.poller_member import COLLECTION, SLEEP_UNTIL, TABLE_OF
from tests.servers.mongo import MongoServer
from tests.servers.postgres import PostgresServer
from tests.servers.shared import in_database, new_database, shared_url

from rota import open_store
from rota.clock import SystemClock
from rota.jobs import JobStatus
from rota.poller import PolledJobs

pytestmark = [pytest.mark.process, pytest.mark.timeout(3600)]

DOCUMENT_COUNT = int(os.environ.get("ROTA_POLLER_DOCUMENTS", "60"))
"""How many documents there are: 5,000 where there is time, a quarter of an hour for each test."""

LONG = timedelta(minutes=10)
IS_FULL_SIZE = DOCUMENT_COUNT >= 1000
SHORT = timedelta(seconds=15 if IS_FULL_SIZE else 3)
KILLED_SIZE = 8 if IS_FULL_SIZE else 4
"""How many pollers there are where some are killed, or the server is."""


def name_of(number: int) -> str:
    return f"{number:05}"


def make_document(number: int, now: datetime) -> dict[str, Any]:
    """One that is due, as no other is, so that the server knows which is the first."""
    due_at = now - timedelta(milliseconds=DOCUMENT_COUNT - number)
    return {"_id": name_of(number), "note": f"{number}", "cron": {"sleepUntil": due_at}}


class Storage:
    """Documents of a collection of MongoDB, put there and looked at from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fill(self, count: int) -> list[str]:
        now = SystemClock().now()
        with MongoClient[dict[str, Any]](self.url) as client:
            collection = client.get_default_database()[COLLECTION]
            for start in range(0, count, 100):
                numbers = range(start, min(start + 100, count))
                collection.insert_many([make_document(number, now) for number in numbers])
        return [name_of(number) for number in range(count)]

    def count_awake(self) -> int:
        """How many documents are not done."""
        with MongoClient[dict[str, Any]](self.url) as client:
            collection = client.get_default_database()[COLLECTION]
            return collection.count_documents({SLEEP_UNTIL: {"$ne": None}})


class RecordStorage(Storage):
    """Jobs of a store."""

    def fill(self, count: int) -> list[str]:
        async def fill() -> list[str]:
            async with await open_store(self.url) as store:
                jobs = PolledJobs(store)
                return list(await asyncio.gather(*(jobs.add({"n": n}) for n in range(count))))

        return asyncio.run(fill())

    def count_awake(self) -> int:
        async def count() -> int:
            async with await open_store(self.url) as store:
                pages = [page async for page in PolledJobs(store).scan()]
            return sum(job.status is not JobStatus.COMPLETED for page in pages for job in page)

        return asyncio.run(count())


class TableStorage(Storage):
    """Rows of a table on PostgreSQL."""

    def __init__(self, address: str) -> None:
        super().__init__(TABLE_OF + address)
        self._address = address

    def fill(self, count: int) -> list[str]:
        now = SystemClock().now()
        rows = [
            (name_of(number), now - timedelta(milliseconds=count - number))
            for number in range(count)
        ]
        with psycopg.connect(self._address, autocommit=True) as connection:
            columns = "id text PRIMARY KEY, sleep_until timestamptz"
            connection.execute(f"CREATE TABLE IF NOT EXISTS jobs ({columns})")
            connection.cursor().executemany("INSERT INTO jobs VALUES (%s, %s)", rows)
        return [name for name, _ in rows]

    def count_awake(self) -> int:
        with psycopg.connect(self._address) as connection:
            statement = "SELECT count(*) FROM jobs WHERE sleep_until IS NOT NULL"
            (count,) = connection.execute(statement).fetchone() or (0,)
            return int(count)


MAKERS: Mapping[str, Callable[[pytest.FixtureRequest, Path], Storage]] = {
    "mongo": lambda request, _: Storage(request.getfixturevalue("mongo_url")),
    "table": lambda request, _: TableStorage(request.getfixturevalue("empty_database")),
    "sqlite": lambda _, folder: RecordStorage(f"sqlite:///{folder / 'rota.db'}"),
    "postgres": lambda request, _: RecordStorage(request.getfixturevalue("postgres_url")),
}


@pytest.fixture(params=sorted(MAKERS))
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A store of each sort that several processes can share."""
    return MAKERS[request.param](request, tmp_path)


@pytest.fixture
def empty_database() -> Iterator[str]:
    with new_database(shared_url()) as url:
        yield url


@pytest.fixture(params=["mongo", "table"])
def own_server(request: pytest.FixtureRequest) -> MongoServer | PostgresServer:
    """A server that may be killed."""
    name = {"mongo": "own_mongo", "table": "own_postgres"}[request.param]
    server: MongoServer | PostgresServer = request.getfixturevalue(name)
    return server


@pytest.fixture
def own_storage(own_server: MongoServer | PostgresServer) -> Storage:
    """Documents on that server."""
    if isinstance(own_server, PostgresServer):
        return TableStorage(own_server.url)
    return Storage(in_database(own_server.url, "rota"))


def await_some(pack: Pack, count: int) -> None:
    wait_for(lambda: len(pack.processed) > count, f"{count} documents", within=3000)


@pytest.mark.parametrize("storage", sorted(MAKERS.keys() - {"table"}), indirect=True)
def test_eight_pollers_process_each_document_once(storage: Storage, tmp_path: Path) -> None:
    added = storage.fill(DOCUMENT_COUNT)
    with gathered_pack(tmp_path, storage.url, lock_for=LONG) as pack:
        wait_for(lambda: len(pack.processed) == len(added), "every document", within=3000)
        wait_for(lambda: storage.count_awake() == 0, "the end of every document")
        pack.stop()
    assert {job: len(entries) for job, entries in pack.processed.items()} == dict.fromkeys(added, 1)
    assert pack.errors == []


def test_documents_of_pollers_that_are_killed_are_processed_after_their_locks(
    storage: Storage, tmp_path: Path
) -> None:
    added = storage.fill(DOCUMENT_COUNT)
    with gathered_pack(tmp_path, storage.url, size=KILLED_SIZE, lock_for=SHORT, work_ms=50) as pack:
        for share in (5, 4, 3):
            await_some(pack, len(added) // share)
            pack.kill_one()
        wait_for(lambda: storage.count_awake() == 0, "the end of every document", within=3000)
        pack.stop()
    assert pack.processed.keys() == set(added)
    assert pack.check_repeats() <= len(pack.killed)


def test_pollers_outlive_a_server_that_is_killed_and_restarted(
    own_server: MongoServer | PostgresServer, own_storage: Storage, tmp_path: Path
) -> None:
    own_storage.fill(0)
    with gathered_pack(
        tmp_path, own_storage.url, size=KILLED_SIZE, lock_for=SHORT, work_ms=20
    ) as pack:
        pack.await_start()  # one that started while the server is down would end at once
        added = own_storage.fill(DOCUMENT_COUNT)
        await_some(pack, len(added) // 3)
        own_server.kill()
        wait_for(lambda: len(pack.errors) >= len(pack.members), "the outage")
        own_server.restart()
        wait_for(lambda: own_storage.count_awake() == 0, "the end of every document", within=3000)
        pack.stop()
    assert pack.processed.keys() == set(added)
    assert pack.check_repeats() <= len(pack.members)
    assert all("StoreUnavailableError" in error for error in pack.errors)
