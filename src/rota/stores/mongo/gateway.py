"""All that is ever said to MongoDB goes through here: two ways to read, one to write.

The verbs are written once, against ``Gateway``. In the store they wait for a socket; for a keeper
of leases, in a thread without an event loop, they never suspend, and are run to their end by
``run_through``.
"""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.database import Database
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.results import BulkWriteResult

from rota.clock.idle import in_flight
from rota.errors import StoreUnavailableError
from rota.stores.mongo.translation import NOTHING_WRITTEN, UNKNOWN, translated

Raw: TypeAlias = dict[str, Any]
"""A document as MongoDB keeps it."""

Operation: TypeAlias = (
    InsertOne[Raw] | ReplaceOne[Raw] | UpdateOne | UpdateMany | DeleteOne | DeleteMany
)
Result = TypeVar("Result")

BY_ID = "_id_"
"""The index that every collection has."""

_DUPLICATE = 11000


class Query(NamedTuple):
    """What is looked for, in which order it is given, and by which index the server is to go.

    A server left to choose remembers the index that did best once, and may keep to it when what is
    due has become what is done.
    """

    collection: str
    where: Mapping[str, Any]
    order: Sequence[tuple[str, int]] = ()
    limit: int = 0
    fields: Sequence[str] | None = None
    by: str | None = None


class Written(NamedTuple):
    """What became of operations. ``refused_count`` are those whose name or key was taken."""

    matched_count: int = 0
    inserted_count: int = 0
    deleted_count: int = 0
    refused_count: int = 0

    @property
    def done_count(self) -> int:
        return self.matched_count + self.inserted_count + self.deleted_count


class Gateway(Protocol):
    """The server, for one caller at a time or for many."""

    async def find(self, query: Query) -> list[Raw]:
        """What a query finds."""
        ...

    async def aggregate(
        self, collection: str, stages: Sequence[Mapping[str, Any]], index: str | None = None
    ) -> list[Raw]:
        """What comes out of a pipeline, which begins by an index."""
        ...

    async def write(self, collection: str, operations: Sequence[Operation]) -> Written:
        """Carry out each operation, in any order; durable when it returns."""
        ...

    async def pause(self, seconds: float) -> None:
        """Let so much real time pass, for whoever else uses the server."""
        ...


class AsyncGateway:
    """For the event loop."""

    def __init__(self, database: "AsyncDatabase[Raw]", label: str) -> None:
        self._database = database
        self.label = label

    async def find(self, query: Query) -> list[Raw]:
        """See ``Gateway.find``."""
        with translated(self.label), in_flight():
            cursor = self._database[query.collection].find(**_options(query))
            return await cursor.to_list()

    async def aggregate(
        self, collection: str, stages: Sequence[Mapping[str, Any]], index: str | None = None
    ) -> list[Raw]:
        """See ``Gateway.aggregate``."""
        with translated(self.label), in_flight():
            here = self._database[collection]
            return await (await here.aggregate(list(stages), **_hint(index))).to_list()

    async def write(self, collection: str, operations: Sequence[Operation]) -> Written:
        """See ``Gateway.write``."""
        with translated(self.label), in_flight():
            try:
                done = await self._database[collection].bulk_write(operations, ordered=False)
            except (BulkWriteError, DuplicateKeyError) as error:
                return _read_errors(error, self.label)
        return _read_result(done)

    async def pause(self, seconds: float) -> None:
        """See ``Gateway.pause``."""
        with in_flight(), suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.Event().wait()


class ThreadGateway:
    """For a thread of its own: nothing here ever suspends."""

    def __init__(self, database: "Database[Raw]", label: str) -> None:
        self._database = database
        self.label = label

    async def find(self, query: Query) -> list[Raw]:
        """See ``Gateway.find``."""
        with translated(self.label):
            return list(self._database[query.collection].find(**_options(query)))

    async def aggregate(
        self, collection: str, stages: Sequence[Mapping[str, Any]], index: str | None = None
    ) -> list[Raw]:
        """See ``Gateway.aggregate``."""
        with translated(self.label):
            return list(self._database[collection].aggregate(list(stages), **_hint(index)))

    async def write(self, collection: str, operations: Sequence[Operation]) -> Written:
        """See ``Gateway.write``."""
        with translated(self.label):
            try:
                done = self._database[collection].bulk_write(operations, ordered=False)
            except (BulkWriteError, DuplicateKeyError) as error:
                return _read_errors(error, self.label)
        return _read_result(done)

    async def pause(self, seconds: float) -> None:
        """See ``Gateway.pause``."""
        threading.Event().wait(seconds)


def run_through(call: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never suspends."""
    try:
        call.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise RuntimeError("a call through a thread's gateway has waited for an event loop")


def _options(query: Query) -> dict[str, Any]:
    return {
        "filter": query.where,
        "sort": list(query.order) or None,
        "limit": query.limit,
        "projection": None if query.fields is None else list(query.fields),
        **_hint(query.by),
    }


def _hint(index: str | None) -> dict[str, Any]:
    return {} if index is None else {"hint": index}


def _read_result(done: BulkWriteResult) -> Written:
    return Written(done.matched_count, done.inserted_count, done.deleted_count)


def _read_errors(error: BulkWriteError | DuplicateKeyError, label: str) -> Written:
    """What was done of operations that were not all accepted; others than duplicates are errors."""
    if isinstance(error, DuplicateKeyError):
        return Written(refused_count=1)
    details: Mapping[str, Any] = error.details
    refused = details.get("writeErrors", ())
    others = [each for each in refused if each.get("code") != _DUPLICATE]
    unsure = details.get("writeConcernErrors", ())
    if others or unsure:
        told = str((*others, *unsure)[0].get("errmsg", ""))[:300]
        reason = "the server does not vouch for the write" if unsure else "MongoDB refused"
        outcome = NOTHING_WRITTEN if len(others) == 1 and not unsure else UNKNOWN
        raise StoreUnavailableError(
            f"The store {label} is not available: {reason} ({told})",
            {"store": label, "reason": reason, "outcome": outcome},
        ) from error
    return Written(
        details.get("nMatched", 0),
        details.get("nInserted", 0),
        details.get("nRemoved", 0),
        len(refused),
    )
