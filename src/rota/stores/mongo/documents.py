"""The document verbs.

The id of a document begins with its collection, so the documents of a collection are together, in
the order of their keys. The index on ``_id`` serves every query.
"""

from collections.abc import Iterable, Sequence
from sys import maxsize
from typing import Any

from pymongo import DeleteOne, InsertOne, ReplaceOne
from pymongo.errors import BulkWriteError, DuplicateKeyError

from rota.errors import StoreUnavailableError
from rota.stores.documents import Name, Versions, apply_stream, decide_writes, take_batch
from rota.stores.mongo.connection import SNAPSHOT, Connection, Raw, Session, is_duplicate
from rota.stores.mongo.translation import NOTHING_WRITTEN
from rota.stores.protocol import Document, DocumentWrite, KeptDocument, checked

CHUNK_LENGTH = 1000
"""How many writes of a stream are sent together."""


def id_of(collection: str, key: str) -> str:
    return f"{len(collection)}:{collection}:{key}"


def _name_of(raw_id: str) -> Name:
    return collection_of(raw_id) or "", key_of(raw_id)


def key_of(raw_id: str) -> str:
    """The key in such an id."""
    length, _, rest = raw_id.partition(":")
    return rest[int(length) + 1 :]


def collection_of(raw_id: str) -> str | None:
    """The collection in such an id; None in the id of a guard."""
    length, colon, rest = raw_id.partition(":")
    return rest[: int(length)] if colon else None


async def scan_page(
    connection: Connection, collection: str, after: str, limit: int
) -> list[Document]:
    """The documents after a key, in the order of keys, as of one moment."""
    where = {"_id": {"$gt": id_of(collection, after), "$lt": f"{len(collection)}:{collection};"}}
    return [_document(raw) for raw in await _read(connection, where, limit)]


async def read_documents(
    connection: Connection, collection: str, keys: Sequence[str]
) -> dict[str, Document]:
    """The documents that exist among ``keys``, as of one moment."""
    ids = sorted({id_of(collection, key) for key in keys})
    found = await _read(connection, {"_id": {"$in": ids}})
    return {document.key: document for document in map(_document, found)}


async def _read(connection: Connection, where: Raw, limit: int = 0) -> list[Raw]:
    documents = connection.documents.with_options(read_concern=SNAPSHOT)
    return await documents.find(where, sort=[("_id", 1)], limit=limit).to_list()


async def create_documents(connection: Connection, documents: Sequence[KeptDocument]) -> int:
    """Create those that do not exist, with their versions; how many."""
    raws = [
        {"_id": id_of(each.collection, each.key), "version": each.version, "body": each.body}
        for each in documents
    ]
    try:
        return len((await connection.documents.insert_many(raws, ordered=False)).inserted_ids)
    except BulkWriteError as error:
        if not is_duplicate(error):
            raise
        return int(error.details["nInserted"])


async def write_each(connection: Connection, writes: Sequence[DocumentWrite]) -> list[int | None]:
    """Apply each write that is still current, together; a single one without a transaction."""
    if len(writes) == 1:
        return [await _write_one(connection, writes[0])]
    return await connection.transact(lambda session: _apply(connection, session, writes))


async def write_all(connection: Connection, writes: Iterable[DocumentWrite]) -> None:
    """Apply all writes or none.

    If other callers interfere, a stream of one chunk is written again. A longer one is not held in
    memory, so the caller has to.
    """
    stream = checked(writes)
    first, is_streaming = take_batch(stream, CHUNK_LENGTH, maxsize), False

    async def work(session: Session) -> None:
        async def apply(batch: Sequence[DocumentWrite]) -> Versions:
            nonlocal is_streaming
            is_streaming = is_streaming or (bool(batch) and batch is not first.writes)
            return await _apply(connection, session, batch)

        if is_streaming:
            raise StoreUnavailableError(
                f"The store {connection.label} is not available: other callers write the same "
                "documents",
                {"store": connection.label, "reason": "busy", "outcome": NOTHING_WRITTEN},
            )
        await apply_stream(stream, CHUNK_LENGTH, maxsize, apply, first)

    await connection.transact(work)


async def _write_one(connection: Connection, write: DocumentWrite) -> int | None:
    documents, after = connection.documents, _content(write)
    if write.expected is None:
        if after is None:
            is_there = await documents.find_one({"_id": _id(write)}, ["_id"]) is not None
            return None if is_there else 0
        try:
            await documents.insert_one(after)
        except DuplicateKeyError:
            return None
        return write.next_version
    current = {"_id": _id(write), "version": write.expected}
    if after is None:
        done_count = (await documents.delete_one(current)).deleted_count
    else:
        done_count = (await documents.replace_one(current, after)).matched_count
    return write.next_version if done_count else None


async def _apply(
    connection: Connection, session: Session, writes: Sequence[DocumentWrite]
) -> Versions:
    """Inside a transaction: apply each write that is current, and sees those before it."""
    ids = sorted({_id(write) for write in writes})
    found = connection.documents.find({"_id": {"$in": ids}}, ["version"], session=session)
    before = {_name_of(raw["_id"]): raw["version"] for raw in await found.to_list()}
    versions, current = decide_writes(writes, before)
    operations = [
        each for name, one in current.items() for each in _operations(one, is_there=name in before)
    ]
    if operations:
        await connection.documents.bulk_write(operations, session=session)
    return versions


def _operations(write: DocumentWrite, *, is_there: bool) -> list[Any]:
    """A document that is to stay absent is inserted and removed, so that others conflict."""
    where, after = {"_id": _id(write)}, _content(write)
    if after is None:
        absent = [] if is_there else [InsertOne[Raw](where)]
        return [*absent, DeleteOne(where)]
    return [ReplaceOne[Raw](where, after) if is_there else InsertOne(after)]


def _id(write: DocumentWrite) -> str:
    return id_of(write.collection, write.key)


def _content(write: DocumentWrite) -> Raw | None:
    """The document as the write leaves it; None if the write removes it."""
    if write.body is None:
        return None
    return {"_id": _id(write), "version": write.next_version, "body": write.body}


def _document(raw: Raw) -> Document:
    return Document(key_of(raw["_id"]), raw["version"], bytes(raw["body"]))
