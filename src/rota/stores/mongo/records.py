"""What ``dump`` reads: everything in the database."""

from collections.abc import Sequence
from typing import Any

from bson import Int64
from pymongo.asynchronous.collection import AsyncCollection

from rota.errors import DamagedJobError
from rota.stores.kernel.records import (
    PORTION_SIZE,
    JobPortion,
    describe_unreadable,
    unseal,
)
from rota.stores.mongo.connection import RESULTS, Connection, Raw
from rota.stores.mongo.documents import collection_of, id_of, key_of
from rota.stores.mongo.rows import decode_attempts, decode_job
from rota.stores.mongo.unit import SET_ASIDE
from rota.stores.protocol import KeptDocument, KeptJob, UnreadableJob

_STORES_OWN = frozenset(
    {"open_count", "awaited_count", "mark", "phase", "watched", "has_result", "results"}
)
_WITH_RESULTS = {
    "$lookup": {"from": RESULTS, "localField": "_id", "foreignField": "_id", "as": "results"}
}


async def read_document_portion(
    connection: Connection, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    """The documents after a collection and key, without the store's guards."""
    last = id_of(collection, key) if collection else ""
    while found := await _read_following(connection.documents, last, limit):
        documents = [
            KeptDocument(name, key_of(raw["_id"]), raw["version"], bytes(raw["body"]))
            for raw in found
            if (name := collection_of(raw["_id"])) is not None
        ]
        if documents:
            return documents
        last = found[-1]["_id"]
    return []


async def read_job_portion(connection: Connection, place: str, limit: int) -> JobPortion:
    """The jobs after an id."""
    found = await _read_following(connection.jobs, place, limit, [_WITH_RESULTS])
    return JobPortion([_read_record(raw) for raw in found], found[-1]["_id"] if found else None)


async def _read_following(
    collection: "AsyncCollection[Raw]", last: str, limit: int, stages: Sequence[Raw] = ()
) -> list[Raw]:
    """The records after an id, up to a limit and until they make up a portion."""
    first: list[Raw] = [{"$match": {"_id": {"$gt": last}}}, {"$sort": {"_id": 1}}]
    found: list[Raw] = []
    size = 0
    async with await collection.aggregate([*first, {"$limit": limit}, *stages]) as raws:
        async for raw in raws:
            found.append(_with_plain_numbers(raw))
            size += _size_of(raw)
            if size >= PORTION_SIZE:
                break
    return found


def _size_of(raw: Raw) -> int:
    parts = [raw.get("body", b""), *raw.get("attempts", ())]
    parts += [result["body"] for result in raw.get("results", ())]
    return sum(map(len, parts))


def _with_plain_numbers(raw: Raw) -> Raw:
    """The driver reads large numbers as a type of its own, which JSON encoders refuse."""
    return {name: int(raw[name]) if isinstance(raw[name], Int64) else raw[name] for name in raw}


def _read_record(raw: Raw) -> KeptJob | UnreadableJob:
    if raw.get("status") == SET_ASIDE:
        return _read_unreadable(raw, "it was set aside")
    try:
        attempts = decode_attempts(raw["_id"], raw.get("attempts", ()))
        return KeptJob(decode_job(raw), attempts, _result_of(raw))
    except DamagedJobError as damage:
        return _read_unreadable(raw, damage.reason)


def _result_of(raw: Raw) -> bytes | None:
    if "has_result" not in raw:
        return None
    kept = (bytes(each["body"]) for each in raw["results"] if each["token"] == raw["last_token"])
    return next(kept, None)


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
