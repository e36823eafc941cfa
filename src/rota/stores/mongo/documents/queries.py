"""Filters and updates of the document verbs.

Every one is served by the index on ``_id`` that MongoDB gives to each collection.
"""

from collections.abc import Sequence

from pymongo import DeleteOne, InsertOne, UpdateOne

from rota.stores.mongo.gateway import BY_ID, Operation, Query, Raw
from rota.stores.mongo.pipelines import NOBODY
from rota.stores.mongo.steps.names import DOCUMENTS, LOCK, VERSION
from rota.stores.protocol import DocumentWrite


def id_of(collection: str, key: str) -> str:
    """Unlike for any two documents that differ; of one collection in the order of their keys."""
    return f"{len(collection)}:{collection}:{key}"


def key_of(raw_id: str) -> str:
    """The key in such an id."""
    length, _, rest = raw_id.partition(":")
    return rest[int(length) + 1 :]


def collection_of(raw_id: str) -> str | None:
    """The collection in such an id; None in that of a document of the store's own."""
    length, colon, rest = raw_id.partition(":")
    return rest[: int(length)] if colon else None


def scan_page(collection: str, last_key: str, limit: int) -> Query:
    """The documents of a collection after a key."""
    end = f"{len(collection)}:{collection};"  # the character after the colon
    where = {"_id": {"$gt": id_of(collection, last_key), "$lt": end}}
    return Query(DOCUMENTS, where, [("_id", 1)], limit, by=BY_ID)


def by_ids(raw_ids: Sequence[str]) -> Query:
    """The documents that exist among these."""
    return Query(DOCUMENTS, {"_id": {"$in": list(raw_ids)}}, by=BY_ID)


def write_one(raw_id: str, write: DocumentWrite) -> Operation:
    """One write that holds only while the document is at its version and nobody's."""
    after = content(write)
    if write.expected is None:
        return InsertOne({"_id": raw_id, **(after or {})})
    current = {"_id": raw_id, VERSION: write.expected, LOCK: NOBODY}
    return DeleteOne(current) if after is None else UpdateOne(current, {"$set": after})


def content(write: DocumentWrite) -> Raw | None:
    """The document as the write leaves it; None when it is gone."""
    return None if write.body is None else {VERSION: write.next_version, "body": write.body}
