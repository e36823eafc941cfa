"""What a database needs for a store: indexes, collections, and the version of their layout."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from pymongo import IndexModel, UpdateMany, UpdateOne, timeout
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from rota.errors import SchemaOutdatedError
from rota.jobs import JobStatus
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.migrations import AppliedMigration
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.connection import (
    DOCUMENTS,
    JOBS,
    RESULTS,
    SCHEMA,
    WAKEUPS,
    Connection,
    Raw,
)
from rota.stores.mongo.documents import collection_of

SCHEMA_VERSION = 4
"""Grows with each change that older programs cannot work with."""

LONGEST_BUILD = 3600.0
"""Seconds for which indexes may be built, if there are many jobs."""

_MIGRATIONS = (
    AppliedMigration(1, "documents_and_jobs", is_compatible=False, checksum=""),
    AppliedMigration(2, "indexes_of_what_is_there", is_compatible=False, checksum=""),
    AppliedMigration(3, "transactions", is_compatible=False, checksum=""),
    AppliedMigration(4, "results", is_compatible=False, checksum=""),
)
_TRANSACTIONS = 3
_MARK = "schema"
_INTENTS = "rota_intents"
_NOT_FOUND, _NAMESPACE_EXISTS = (26, 27), 48
_STATUSES = frozenset(map(str, JobStatus))
_ORDER = (("priority", -1), ("created_at", 1), ("_id", 1))


class Index(NamedTuple):
    """An index of the jobs; it holds only jobs that meet ``only``."""

    name: str
    keys: Sequence[tuple[str, int]]
    only: Mapping[str, Any] | None = None
    is_unique: bool = False

    @property
    def model(self) -> IndexModel:
        options: Raw = {} if self.only is None else {"partialFilterExpression": self.only}
        if self.is_unique:
            options["unique"] = True
        return IndexModel(list(self.keys), name=self.name, **options)


_DUE, _LATER, _RUNNING, _DEAD = ({"phase": phase} for phase in ("due", "later", "running", "dead"))


def _having(field: str) -> dict[str, Any]:
    """A sparse index of several fields would hold every job."""
    return {field: {"$exists": True}}


INDEXES = (
    # A unique index begins with the tenant, so that the collection can be sharded by it.
    Index("keys", [("tenant", 1), ("key", 1)], _having("key"), is_unique=True),
    Index("due", [("tenant", 1), *_ORDER, ("due_at", 1)], _DUE),
    Index("due_in_queue", [("tenant", 1), ("queue", 1), *_ORDER, ("due_at", 1)], _DUE),
    Index("later", [("due_at", 1), ("_id", 1), ("tenant", 1), ("queue", 1)], _LATER),
    Index("later_in_queue", [("queue", 1), ("due_at", 1), ("tenant", 1)], _LATER),
    Index("leased", [("until", 1), ("_id", 1)], _RUNNING),
    Index(
        "surveyed",
        [("phase", 1), ("tenant", 1), ("queue", 1), ("due_at", 1), ("until", 1)],
        _having("phase"),
    ),
    Index("listed", [("tenant", 1), ("created_at", -1), ("_id", 1)]),
    Index("listed_by_status", [("tenant", 1), ("status", 1), ("created_at", -1), ("_id", 1)]),
    Index(
        "recurring",
        [("tenant", 1), ("is_recurring", 1), ("status", 1), ("created_at", -1), ("_id", 1)],
        {"is_recurring": True},
    ),
    Index("dead", [("tenant", 1), ("created_at", -1), ("_id", 1)], _DEAD),
    Index("depending", [("dependencies", 1), ("_id", 1)], _having("dependencies")),
    Index("prunable", [("ended_at", 1), ("_id", 1)], _having("ended_at")),
)


async def prepare(connection: Connection) -> int:
    """Make the database ready, or bring it up to date; the version it had before."""
    await connection.check_server()
    version = await read_version(connection)
    problem = _find_problem(version)
    if problem is not None:
        raise SchemaOutdatedError(problem, {"migration": version, "name": "schema"})
    if 0 < version < _TRANSACTIONS:
        await _use_transactions(connection)
    with timeout(LONGEST_BUILD):
        await _create_collections(connection)
        await _create_indexes(connection)
    if version < SCHEMA_VERSION:
        mark = {"$set": {"version": SCHEMA_VERSION}}
        await connection.database[SCHEMA].update_one({"_id": _MARK}, mark, upsert=True)
    return version


async def read_version(connection: Connection) -> int:
    """The version of the database's layout; 0 if it holds no store."""
    found = await connection.database[SCHEMA].find_one({"_id": _MARK})
    return 0 if found is None else int(found["version"])


def _find_problem(version: int) -> str | None:
    if version <= SCHEMA_VERSION:
        return None
    return (
        f"The store was changed by a newer version of Rota (schema {version}), which this version "
        "cannot work with: upgrade Rota"
    )


async def _create_collections(connection: Connection) -> None:
    """Collections exist before transactions use them, and the one for wake-ups is capped."""
    present = set(await connection.database.list_collection_names())
    for name in {JOBS, DOCUMENTS, RESULTS, WAKEUPS} - present:
        options: Raw = {"capped": True, "size": 1 << 20, "max": 1000} if name == WAKEUPS else {}
        try:
            await connection.database.create_collection(name, check_exists=False, **options)
        except OperationFailure as error:
            if error.code != _NAMESPACE_EXISTS:  # another process was faster
                raise


async def _create_indexes(connection: Connection) -> None:
    """Create missing indexes and drop unknown ones of earlier versions.

    Queries name their index, so each must exist. While a member of the set is down, a majority
    commits the build.
    """
    present = await connection.jobs.index_information()
    missing = [index.model for index in INDEXES if index.name not in present]
    if missing:
        await connection.jobs.create_indexes(missing, commitQuorum="majority")


async def _use_transactions(connection: Connection) -> None:
    """From version 2 on: what was several writes with a record of intent is one transaction.

    Can be repeated. A write that an older version has left unfinished must be finished by it.
    """
    jobs, documents = connection.jobs, connection.documents
    locked = {"lock": {"$exists": True}}
    unfinished = [await each.find_one(locked, ["_id"]) for each in (jobs, documents)]
    if any(unfinished) or await connection.database[_INTENTS].find_one() is not None:
        raise SchemaOutdatedError(
            "The store has writes that an earlier version of Rota has not finished: open it once "
            "with that version, then upgrade",
            {"migration": _TRANSACTIONS, "name": "transactions"},
        )
    for name in ("keys", "claims", "lanes", "dependents", "ended", *(one.name for one in INDEXES)):
        await _drop_index(jobs, name)
    await _drop_index(documents, "claims")
    changes: Raw = {"$rename": {"lane": "phase"}, "$unset": {"keys": "", "settled": "", "mark": ""}}
    await jobs.update_many({"lane": {"$exists": True}}, changes)
    terminal = {"status": {"$in": [str(each) for each in JobStatus if each.is_terminal]}}
    await jobs.update_many(terminal, [{"$set": {"ended_at": "$updated_at"}}])
    await jobs.update_many(
        {}, {"$unset": {"keys": "", "settled": "", "version": "", "is_awaited": ""}}
    )
    waiting = jobs.find({"dependencies": {"$exists": True}}, ["dependencies"])
    while some := await waiting.to_list(1000):
        await _count_dependencies(connection, some)
    await connection.database.drop_collection(_INTENTS)


async def _count_dependencies(connection: Connection, raws: Sequence[Raw]) -> None:
    """Write how many dependencies of these jobs are open, and that those are awaited."""
    parents = sorted({each for raw in raws for each in raw["dependencies"]})
    named = await connection.jobs.find({"_id": {"$in": parents}}, ["status"]).to_list()
    completed = {raw["_id"] for raw in named if raw["status"] == str(JobStatus.COMPLETED)}
    operations: list[UpdateMany | UpdateOne] = [
        UpdateOne(
            {"_id": raw["_id"]},
            {"$set": {"open_count": sum(each not in completed for each in raw["dependencies"])}},
        )
        for raw in raws
    ]
    awaited = {"_id": {"$in": parents}, "awaited_count": {"$exists": False}}
    operations.append(UpdateMany(awaited, {"$set": {"awaited_count": 1}}))
    await connection.jobs.bulk_write(operations, ordered=False)


async def _drop_index(collection: "AsyncCollection[Raw]", name: str) -> None:
    try:
        await collection.drop_index(name)
    except OperationFailure as error:
        if error.code not in _NOT_FOUND:
            raise


async def inspect_database(settings: MongoSettings) -> StoreInspection:
    """The state of the database; nothing is changed."""
    connection = await Connection.open(settings)
    try:
        return await connection.run(lambda: _inspect(connection))
    finally:
        await connection.close()


async def migrate_database(settings: MongoSettings, _locked_for: timedelta) -> MigrationReport:
    """Make the database ready, or bring it up to date."""
    connection = await Connection.open(settings)
    try:
        before = await connection.run(lambda: prepare(connection))
    finally:
        await connection.close()
    return MigrationReport(_MIGRATIONS[before:], max(before, SCHEMA_VERSION))


async def _inspect(connection: Connection) -> StoreInspection:
    version = await read_version(connection)
    server_version = await connection.read_server_version()
    if not version:
        return StoreInspection(
            connection.label, "MongoDB", server_version, exists=False, pending=_MIGRATIONS
        )
    statuses = await _count_statuses(connection)
    return StoreInspection(
        connection.label,
        "MongoDB",
        server_version,
        applied=_MIGRATIONS[:version],
        pending=_MIGRATIONS[version:],
        problem=_find_problem(version),
        document_counts=await _count_documents(connection),
        job_counts={each: count for each, count in statuses.items() if each in _STATUSES},
        set_aside_job_count=sum(count for each, count in statuses.items() if each not in _STATUSES),
    )


async def _count_statuses(connection: Connection) -> dict[str, int]:
    found = await connection.jobs.aggregate([{"$group": {"_id": "$status", "count": {"$sum": 1}}}])
    return {raw["_id"]: raw["count"] for raw in await found.to_list()}


async def _count_documents(connection: Connection) -> dict[str, int]:
    """For operators: reads the id of every document."""
    found = await connection.documents.find({}, ["_id"]).to_list()
    names = (collection_of(raw["_id"]) for raw in found)
    return dict(Counter(name for name in names if name is not None))
