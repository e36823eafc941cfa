"""The connection to one database: calls that outlive their callers, and transactions."""

from asyncio import Event, Task
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Self, TypeAlias, TypeVar

from bson import ObjectId
from pymongo import AsyncMongoClient, ReadPreference, UpdateMany, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern

from rota.clock.loop import in_flight
from rota.errors import StoreUnavailableError
from rota.stores.calls import Calls
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.translation import NOTHING_WRITTEN, is_unacknowledged, translated
from rota.stores.wakeups import wait_for

Raw: TypeAlias = dict[str, Any]
"""A document of MongoDB."""

Session: TypeAlias = AsyncClientSession
Result = TypeVar("Result")

APP_NAME = "rota"
DOCUMENTS = "rota_documents"
JOBS = "rota_jobs"
RESULTS = "rota_results"
SCHEMA = "rota_schema"
WAKEUPS = "rota_wakeups"

BY_ID = "_id_"
"""The index of ids."""

DURABLE = WriteConcern(w="majority", j=True)
SNAPSHOT = ReadConcern("snapshot")
DUPLICATE_KEY, UNAUTHORIZED = 11000, 13

MOST_TRIES = 300
"""After this many conflicts with other writers, in about 15 s, a transaction gives up."""
LOOKED_AFTER = 8
"""After this many conflicts, in about 0.2 s, the transaction in the way may be abandoned."""
ABANDONED_AFTER = timedelta(seconds=1)
"""A transaction that is in the way, and idle for this long, is that of a process that died."""
COMMIT_TRIES = 5
"""How often a commit is sent again while its result is unknown."""
LONGEST_PAUSE = 0.1
"""Seconds between two tries; at first a thousandth."""

_MILLISECOND = timedelta(milliseconds=1)


class Connection:
    """Runs calls; a call that has begun is completed, even if its caller is cancelled."""

    def __init__(self, client: "AsyncMongoClient[Raw]", settings: MongoSettings) -> None:
        self._client = client
        self._random = Random(str(ObjectId()))  # noqa: S311 - spreads retries, keeps no secret
        self.calls = Calls()
        self.label = settings.label
        self.database: AsyncDatabase[Raw] = client[settings.database]
        self.jobs = self.database[JOBS]
        self.documents = self.database[DOCUMENTS]
        self.results = self.database[RESULTS]
        self.is_routed = False
        """Whether a mongos passes calls on to shards, each of which has some of the tenants."""

    @classmethod
    async def open(cls, settings: MongoSettings) -> Self:
        """The database at an address. The first call connects."""
        with translated(settings.label):
            return cls(AsyncMongoClient(settings.url, **options(settings)), settings)

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do ``work`` and return its result; cancelling stops only the waiting."""
        return await self.calls.run(lambda: self._translated(work))

    def start(self, work: Callable[[], Awaitable[Result]]) -> "Task[Result]":
        """Do ``work`` beside the caller; ``close`` waits for it."""
        return self.calls.start(lambda: self._translated(work))

    async def _translated(self, work: Callable[[], Awaitable[Result]]) -> Result:
        with translated(self.label):
            return await work()

    async def transact(
        self, work: Callable[[Session], Awaitable[Result]], *, retries_duplicates: bool = True
    ) -> Result:
        """Do ``work`` in a transaction, and again from the start if other writers interfere."""
        async with self._client.start_session() as session:
            for tried in range(MOST_TRIES):
                await session.start_transaction(SNAPSHOT, DURABLE, ReadPreference.PRIMARY)
                try:
                    answer = await work(session)
                    await _commit(session)
                except PyMongoError as error:
                    _raise_unless_contended(error, retries_duplicates=retries_duplicates)
                else:
                    return answer
                await self._wait_for_others(session, tried)
        raise StoreUnavailableError(
            f"The store {self.label} is not available: other callers write the same records",
            {"store": self.label, "reason": "busy", "outcome": NOTHING_WRITTEN},
        )

    async def update_marked(
        self, updates: Sequence[UpdateMany], session: Session | None = None
    ) -> int | None:
        """Update jobs that are free to be updated, and leave a mark in each; how many.

        When the answer is lost, the same is sent once more: what the first has done no longer
        matches. Then only the marks tell what was updated, and the answer is None.
        """
        try:
            done = await self.jobs.bulk_write(updates, ordered=False, session=session)
        except ServerSelectionTimeoutError:
            raise
        except (ConnectionFailure, BulkWriteError) as error:
            is_lost = isinstance(error, ConnectionFailure) or is_unacknowledged(error)
            if session is not None or not is_lost:
                raise
            await self.jobs.bulk_write(updates, ordered=False)
            return None
        return done.matched_count

    async def _wait_for_others(self, session: Session, tried: int) -> None:
        if session.in_transaction:
            await session.abort_transaction()
        await self._pause(tried)
        if tried % LOOKED_AFTER == LOOKED_AFTER - 1:
            await self.end_abandoned(ABANDONED_AFTER)

    async def end_abandoned(self, idle_for: timedelta) -> None:
        """End transactions of Rota that are open and idle, as a process leaves them when it dies.

        The server keeps their documents from other writers for a minute. A process that lives
        starts a transaction again that was ended.
        """
        idle = {
            "type": "idleSession",
            "appName": APP_NAME,
            "transaction.timeInactiveMicros": {"$gt": idle_for // timedelta(microseconds=1)},
        }
        stages: list[Raw] = [
            {"$currentOp": {"idleSessions": True, "allUsers": False}},
            {"$match": idle},
            {"$project": {"lsid.id": 1}},
        ]
        admin = self._client.get_database("admin", read_concern=ReadConcern("local"))
        try:
            found = await (await admin.aggregate(stages)).to_list()
            if found:
                sessions = [{"id": raw["lsid"]["id"]} for raw in found]
                await admin.command("killSessions", sessions)
        except OperationFailure as error:
            if error.code != UNAUTHORIZED:  # then the server ends them, later
                raise

    async def hello(self) -> Raw:
        """What the server says about itself."""
        return await self._client.admin.command("hello")

    async def check_server(self) -> None:
        """Refuse a server without transactions: neither in a replica set nor a mongos."""
        hello = await self.hello()
        self.is_routed = hello.get("msg") == "isdbgrid"
        if "setName" not in hello and not self.is_routed:
            raise StoreUnavailableError(
                f"The store {self.label} is not available: the server is not part of a replica "
                "set, and Rota needs one for transactions. One member is enough: start it with "
                "mongod --replSet rs0, then run rs.initiate() once in mongosh",
                {"store": self.label, "reason": "not a replica set", "outcome": NOTHING_WRITTEN},
            )

    async def read_clock(self) -> datetime:
        """The server's clock, to the millisecond."""
        instant: datetime = (await self.hello())["localTime"]
        return instant.replace(tzinfo=UTC)

    async def read_server_version(self) -> str:
        return str((await self._client.admin.command("buildInfo"))["version"])

    async def close(self) -> None:
        """Complete the calls under way, then disconnect."""
        with in_flight():
            await self.calls.finish()
            await self._client.close()

    async def _pause(self, tried: int) -> None:
        longest = min(0.001 * 2**tried, LONGEST_PAUSE)
        await wait_for(Event(), self._random.uniform(0, longest))


async def _commit(session: Session) -> None:
    """Commit, and try again while it is unknown whether it was committed."""
    for _ in range(COMMIT_TRIES - 1):
        try:
            await session.commit_transaction()
        except ServerSelectionTimeoutError:
            raise
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult"):
                raise
        else:
            return
    await session.commit_transaction()


def _raise_unless_contended(error: PyMongoError, *, retries_duplicates: bool) -> None:
    """Return if a new transaction may succeed: nothing was written, and others interfered."""
    if retries_duplicates and is_duplicate(error):
        return
    is_away = isinstance(error, ServerSelectionTimeoutError)
    if is_away or not error.has_error_label("TransientTransactionError"):
        raise error


def is_duplicate(error: PyMongoError) -> bool:
    """Whether an id or a key exists already."""
    if isinstance(error, BulkWriteError):
        refused = error.details.get("writeErrors", ())
        return bool(refused) and all(each.get("code") == DUPLICATE_KEY for each in refused)
    return getattr(error, "code", None) == DUPLICATE_KEY


def options(settings: MongoSettings) -> Raw:
    """How the driver treats the server, whatever the address says.

    A write is acknowledged once it is in the journals of a majority, and only then seen.
    """
    return {
        "appname": APP_NAME,
        "w": "majority",
        "journal": True,
        "readConcernLevel": "majority",
        "retryWrites": True,
        "retryReads": True,
        "readPreference": "primary",
        "serverSelectionTimeoutMS": settings.connect_for // _MILLISECOND,
        "connectTimeoutMS": settings.connect_for // _MILLISECOND,
        "socketTimeoutMS": settings.answer_for // _MILLISECOND,
        "tz_aware": False,
    }
