"""``load``: records are put into the database as they are, each in one write."""

from collections.abc import Collection, Sequence
from datetime import datetime

from pymongo import InsertOne, UpdateMany

from rota.jobs import JobId
from rota.stores.kernel.records import seal
from rota.stores.mongo.documents.queries import id_of
from rota.stores.mongo.gateway import Gateway, Operation, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.rows import encode_attempt, encode_job
from rota.stores.mongo.steps.names import DOCUMENTS, JOBS, VERSION
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob

_NEEDED = "dependencies"


async def load(gateway: Gateway, records: Sequence[Record], now: datetime) -> int:
    """Keep what is new; how much that was.

    Who is depended on is written last, whether or not anything was new: a call that was cut off is
    made good by the next one.
    """
    documents = [_keep_document(each) for each in records if isinstance(each, KeptDocument)]
    jobs = [each for each in records if not isinstance(each, KeptDocument)]
    new_count = 0
    if documents:
        new_count += (await gateway.write(DOCUMENTS, documents)).inserted_count
    if jobs:
        new_count += await _load_jobs(gateway, jobs, now)
    return new_count


def _keep_document(document: KeptDocument) -> Operation:
    raw_id = id_of(document.collection, document.key)
    return InsertOne({"_id": raw_id, VERSION: document.version, "body": document.body})


async def _load_jobs(
    gateway: Gateway, jobs: Sequence[KeptJob | UnreadableJob], now: datetime
) -> int:
    raws = [_encode(each, now) for each in jobs]
    parents = {parent for raw in raws for parent in raw.get(_NEEDED, ())}
    awaited = parents | await _find_awaited(gateway, [raw["_id"] for raw in raws])
    for raw in raws:
        if raw["_id"] in awaited:
            raw["is_awaited"] = True
            raw.pop("ended_at", None)
    written = await gateway.write(JOBS, [InsertOne(raw) for raw in raws])
    if parents:
        await gateway.write(JOBS, [_mark_awaited(parents)])
    return written.inserted_count


async def _find_awaited(gateway: Gateway, ids: Sequence[JobId]) -> set[JobId]:
    """Those on whom somebody depends who came before."""
    found: set[JobId] = set()
    for start in range(0, len(ids), queries.VALUES_AT_ONCE):
        asked = queries.dependents_of(ids[start : start + queries.VALUES_AT_ONCE])
        for raw in await gateway.find(asked._replace(fields=[_NEEDED])):
            found.update(raw[_NEEDED])
    return found


def _mark_awaited(ids: Collection[JobId]) -> UpdateMany:
    unmarked = {"_id": {"$in": sorted(ids)}, "is_awaited": {"$exists": False}}
    return UpdateMany(
        unmarked, {"$set": {"is_awaited": True}, "$unset": {"ended_at": ""}, "$inc": {VERSION: 1}}
    )


def _encode(record: KeptJob | UnreadableJob, now: datetime) -> Raw:
    if isinstance(record, KeptJob):
        attempts = [encode_attempt(each) for each in record.attempts]
        return {"_id": record.job.id, VERSION: 1, **encode_job(record.job, now, attempts=attempts)}
    raw: Raw = {
        "_id": record.job_id,
        VERSION: 1,
        "tenant": record.tenant,
        "queue": record.queue,
        "status": "DAMAGED",
        "lane": "damaged",
        "created_at": 0,
        "body": seal(record.content),
    }
    return {**raw, _NEEDED: list(record.dependencies)} if record.dependencies else raw
