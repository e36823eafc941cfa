"""``dump``: everything in the database, a portion at a time."""

from collections.abc import Sequence
from typing import Any

from bson import Int64

from rota.errors import DamagedJobError
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    describe_unreadable,
    unseal,
    walk,
)
from rota.stores.mongo.connection import Connection
from rota.stores.mongo.documents.queries import collection_of, id_of, key_of
from rota.stores.mongo.gateway import Gateway, Query, Raw
from rota.stores.mongo.jobs.rows import decode_attempt, decode_kept
from rota.stores.mongo.steps.names import DOCUMENTS, JOBS, VERSION
from rota.stores.mongo.steps.steady import read_steadily
from rota.stores.protocol import KeptDocument, KeptJob, Portion, UnreadableJob

FIRST_COUNT = 4
"""So many are read before it is known how large they are."""

_ASIDE = "DAMAGED"


async def dump(connection: Connection, cursor: str | None, limit: int) -> Portion:
    """The portion behind a cursor; see the protocol."""
    gateway = connection.gateway

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        last = id_of(collection, key) if collection else ""
        return await connection.run(lambda: _read_documents(gateway, last, limit))

    async def read_jobs(place: str) -> JobPortion:
        return await connection.run(lambda: _read_jobs(gateway, place, limit))

    return await walk(cursor, read_documents, read_jobs)


async def _read_documents(gateway: Gateway, last: str, limit: int) -> list[KeptDocument]:
    """Those after an id; what is the store's own, or not there yet, is passed over."""
    while found := await _read_following(gateway, DOCUMENTS, last, limit):
        documents = [
            KeptDocument(collection, key_of(raw["_id"]), raw[VERSION], bytes(raw["body"]))
            for raw in found
            if VERSION in raw and (collection := collection_of(raw["_id"])) is not None
        ]
        if documents:
            return documents
        last = found[-1]["_id"]
    return []


async def _read_jobs(gateway: Gateway, last: str, limit: int) -> JobPortion:
    found = await _read_following(gateway, JOBS, last, limit)
    records = [_read_record(raw) for raw in found if VERSION in raw]
    return JobPortion(records, found[-1]["_id"] if found else None)


async def _read_following(gateway: Gateway, collection: str, last: str, limit: int) -> list[Raw]:
    found: list[Raw] = []
    size, count = 0, FIRST_COUNT
    while len(found) < limit and size < PORTION_SIZE:
        count = min(count, limit - len(found))
        asked = Query(collection, {"_id": {"$gt": last}}, [("_id", 1)], count)
        some = await read_steadily(gateway, [asked])
        found += map(_with_plain_numbers, some)
        size += sum(len(raw.get("body", b"")) for raw in some)
        if len(some) < count:
            break
        last = some[-1]["_id"]
        count = 1 + (PORTION_SIZE - size) * len(found) // max(size, 1)
    return found


def _with_plain_numbers(raw: Raw) -> Raw:
    """Large numbers come as the driver's own, which not everybody can write."""
    return {name: int(raw[name]) if isinstance(raw[name], Int64) else raw[name] for name in raw}


def _read_record(raw: Raw) -> KeptJob | UnreadableJob:
    if raw.get("status") == _ASIDE:
        return _set_aside(raw, "it was set aside")
    try:
        kept = decode_kept(raw)
        tried = tuple(decode_attempt(kept.job.id, each) for each in kept.attempts)
        return KeptJob(kept.job, tried)
    except DamagedJobError as damage:
        return _set_aside(raw, damage.reason)


def _set_aside(raw: Raw, reason: str) -> UnreadableJob:
    content = unseal(bytes(raw.get("body", b"")))
    if content is None:
        content = describe_unreadable("mongodb", reason, {name: _plain(raw[name]) for name in raw})
    parents = tuple(sorted(raw.get("dependencies", ())))
    return UnreadableJob(
        raw["_id"], str(raw.get("tenant", "")), str(raw.get("queue", "")), parents, content
    )


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    return (
        value if isinstance(value, (str, int, float, bool, bytes, list, type(None))) else str(value)
    )
