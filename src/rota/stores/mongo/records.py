"""``dump`` and ``load``: everything in the database, taken from one store to another."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from bson import Int64
from pymongo import InsertOne, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError

from rota.errors import DamagedJobError
from rota.jobs import JobId, JobStatus
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    describe_unreadable,
    seal,
    unseal,
    walk,
)
from rota.stores.mongo.connection import Connection, Raw, is_duplicate
from rota.stores.mongo.documents import collection_of, id_of, key_of
from rota.stores.mongo.rows import decode_attempts, decode_job, encode_attempt, encode_job
from rota.stores.mongo.unit import SET_ASIDE
from rota.stores.protocol import KeptDocument, KeptJob, Portion, Record, UnreadableJob

FIRST_COUNT = 4
"""How many records are read before their size is known."""
_STORES_OWN = frozenset({"open_count", "awaited_count", "mark", "phase"})


async def dump(connection: Connection, cursor: str | None, limit: int) -> Portion:
    """The portion behind a cursor."""

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        last = id_of(collection, key) if collection else ""
        return await _read_documents(connection, last, limit)

    async def read_jobs(place: str) -> JobPortion:
        found = await _read_following(connection.jobs, place, limit)
        return JobPortion([_read_record(raw) for raw in found], found[-1]["_id"] if found else None)

    return await walk(cursor, read_documents, read_jobs)


async def _read_documents(connection: Connection, last: str, limit: int) -> list[KeptDocument]:
    """The documents after an id, without the store's guards."""
    while found := await _read_following(connection.documents, last, limit):
        documents = [
            KeptDocument(collection, key_of(raw["_id"]), raw["version"], bytes(raw["body"]))
            for raw in found
            if (collection := collection_of(raw["_id"])) is not None
        ]
        if documents:
            return documents
        last = found[-1]["_id"]
    return []


async def _read_following(collection: "AsyncCollection[Raw]", last: str, limit: int) -> list[Raw]:
    found: list[Raw] = []
    size, count = 0, FIRST_COUNT
    while len(found) < limit and size < PORTION_SIZE:
        count = min(count, limit - len(found))
        where = {"_id": {"$gt": last}}
        some = await collection.find(where, sort=[("_id", 1)], limit=count).to_list()
        found += map(_with_plain_numbers, some)
        size += sum(len(raw.get("body", b"")) for raw in some)
        if len(some) < count:
            break
        last = some[-1]["_id"]
        count = 1 + (PORTION_SIZE - size) * len(found) // max(size, 1)
    return found


def _with_plain_numbers(raw: Raw) -> Raw:
    """The driver reads large numbers as a type of its own, which JSON encoders refuse."""
    return {name: int(raw[name]) if isinstance(raw[name], Int64) else raw[name] for name in raw}


def _read_record(raw: Raw) -> KeptJob | UnreadableJob:
    if raw.get("status") == SET_ASIDE:
        return _read_unreadable(raw, "it was set aside")
    try:
        return KeptJob(decode_job(raw), decode_attempts(raw["_id"], raw.get("attempts", ())))
    except DamagedJobError as damage:
        return _read_unreadable(raw, damage.reason)


def _read_unreadable(raw: Raw, reason: str) -> UnreadableJob:
    content = unseal(bytes(raw.get("body", b"")))
    if content is None:
        shown = {name: _plain(raw[name]) for name in raw if name not in _STORES_OWN}
        content = describe_unreadable("mongodb", reason, shown)
    parents = tuple(sorted(raw.get("dependencies", ())))
    return UnreadableJob(
        raw["_id"], str(raw.get("tenant", "")), str(raw.get("queue", "")), parents, content
    )


def _plain(value: Any) -> Any:
    """A value that JSON has."""
    return (
        value if isinstance(value, (str, int, float, bool, bytes, list, type(None))) else str(value)
    )


async def load(connection: Connection, records: Sequence[Record], now: datetime) -> int:
    """Store what is new; how much that was.

    What follows from dependencies is counted last, from what is stored then. So repeating a call
    that was cut off completes it.
    """
    documents = [
        {"_id": id_of(each.collection, each.key), "version": each.version, "body": each.body}
        for each in records
        if isinstance(each, KeptDocument)
    ]
    jobs = [_encode(each, now) for each in records if not isinstance(each, KeptDocument)]
    new_count = await _insert_new(connection.documents, documents)
    new_count += await _insert_new(connection.jobs, jobs)
    if jobs:
        await count_dependencies(connection, [raw["_id"] for raw in jobs])
    return new_count


async def _insert_new(collection: "AsyncCollection[Raw]", raws: Sequence[Raw]) -> int:
    """Insert those that do not exist; how many."""
    if not raws:
        return 0
    try:
        inserts = [InsertOne(raw) for raw in raws]
        return (await collection.bulk_write(inserts, ordered=False)).inserted_count
    except BulkWriteError as error:
        if not is_duplicate(error):
            raise
        return int(error.details["nInserted"])


async def count_dependencies(connection: Connection, job_ids: Collection[JobId]) -> None:
    """Write how many dependencies are open, and who is awaited, of these jobs and their kin."""
    ids = sorted(job_ids)
    near = {"$or": [{"_id": {"$in": ids}}, {"dependencies": {"$in": ids}}]}
    fields = ["status", "dependencies"]
    raws = await connection.jobs.find(near, fields).to_list()
    parents = sorted({each for raw in raws for each in raw.get("dependencies", ())})
    named = await connection.jobs.find({"_id": {"$in": parents}}, ["status"]).to_list()
    completed = {raw["_id"] for raw in named if raw["status"] == str(JobStatus.COMPLETED)}
    operations: list[UpdateMany | UpdateOne] = [
        UpdateOne(
            {"_id": raw["_id"]},
            {"$set": {"open_count": sum(each not in completed for each in raw["dependencies"])}},
        )
        for raw in raws
        if raw.get("dependencies")
    ]
    if parents:
        awaited = {"_id": {"$in": parents}, "awaited_count": {"$exists": False}}
        operations.append(UpdateMany(awaited, {"$set": {"awaited_count": 1}}))
    if operations:
        await connection.jobs.bulk_write(operations, ordered=False)


def _encode(record: KeptJob | UnreadableJob, now: datetime) -> Raw:
    if isinstance(record, KeptJob):
        raw = encode_job(record.job, now)
        if record.attempts:
            raw["attempts"] = [encode_attempt(each) for each in record.attempts]
        return raw
    raw = {
        "_id": record.job_id,
        "tenant": record.tenant,
        "queue": record.queue,
        "status": SET_ASIDE,
        "phase": "damaged",
        "created_at": 0,
        "body": seal(record.content),
    }
    return {**raw, "dependencies": list(record.dependencies)} if record.dependencies else raw
