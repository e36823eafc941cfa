"""The verbs of ``DocumentStore``.

A document's id is made of its collection and key such that those of one collection stand together,
by the code points of their keys: the index that every collection has serves all that is asked.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice

from rota.errors import StaleVersionError
from rota.stores.mongo.documents import queries
from rota.stores.mongo.documents.desk import CHUNK_LENGTH, Desk
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.steps.names import DOCUMENTS, VERSION
from rota.stores.mongo.steps.recovery import clear_for_writing
from rota.stores.mongo.steps.steady import read_steadily
from rota.stores.mongo.steps.step import Step
from rota.stores.protocol import Document, DocumentWrite, checked

PAGE_LENGTH = 1000


async def scan(gateway: Gateway, collection: str) -> AsyncIterator[Sequence[Document]]:
    """All documents in key order; each page is as of one moment."""
    last_key = ""
    page_length = PAGE_LENGTH
    while page_length == PAGE_LENGTH:
        asked = queries.scan_page(collection, last_key, PAGE_LENGTH)
        found = await read_steadily(gateway, [asked])
        page_length = len(found)
        if found:
            last_key = queries.key_of(found[-1]["_id"])
        page = [_document(raw) for raw in found if VERSION in raw]
        if page:
            yield page


async def read(gateway: Gateway, collection: str, keys: Sequence[str]) -> dict[str, Document]:
    """The documents that exist among ``keys``, as of one moment."""
    ids = sorted({queries.id_of(collection, key) for key in keys})
    asked = [
        queries.by_ids(ids[start : start + CHUNK_LENGTH])
        for start in range(0, len(ids), CHUNK_LENGTH)
    ]
    found = await read_steadily(gateway, asked)
    documents = (_document(raw) for raw in found if VERSION in raw)
    return {document.key: document for document in documents}


async def write_each(gateway: Gateway, writes: Sequence[DocumentWrite]) -> list[int | None]:
    """Apply each write that is still current, together."""
    if len(writes) == 1:
        return [await _write_one(gateway, writes[0])]
    while True:
        step = Step(gateway)
        await step.begin()
        try:
            desk = Desk(gateway, step)
            answers = [each for chunk in _chunks(writes) for each in await desk.apply_each(chunk)]
            if await step.commit():
                return answers
        except BaseException:
            await step.give_up()
            raise


async def write_all(gateway: Gateway, writes: Iterable[DocumentWrite]) -> bool:
    """Apply all writes or none; False, with none applied, when others called the step off."""
    step = Step(gateway)
    await step.begin()
    try:
        desk = Desk(gateway, step)
        for chunk in _chunks(checked(writes)):
            _refuse_stale(chunk, await desk.apply_each(chunk))
        return await step.commit()
    except BaseException:
        await step.give_up()
        raise


async def _write_one(gateway: Gateway, write: DocumentWrite) -> int | None:
    """One document is one write; only where somebody has a claim on it is there more to do."""
    raw_id = queries.id_of(write.collection, write.key)
    if write.expected is None and write.body is None:
        return None if await read(gateway, write.collection, [write.key]) else 0
    while True:
        written = await gateway.write(DOCUMENTS, [queries.write_one(raw_id, write)])
        if written.done_count:
            return write.next_version
        found = await gateway.find(queries.by_ids([raw_id]))
        is_free = await clear_for_writing(gateway, found)
        version = found[0].get(VERSION) if found else None
        if is_free and version != write.expected:
            return None


def _refuse_stale(writes: Sequence[DocumentWrite], versions: Sequence[int | None]) -> None:
    for write, version in zip(writes, versions, strict=True):
        if version is None:
            raise StaleVersionError(write.collection, write.key, write.expected)


def _document(raw: Raw) -> Document:
    return Document(queries.key_of(raw["_id"]), raw[VERSION], bytes(raw["body"]))


def _chunks(writes: Iterable[DocumentWrite]) -> Iterator[list[DocumentWrite]]:
    """So many at a time; what came before the stream broke is given before it is told."""
    stream = iter(writes)
    while True:
        chunk: list[DocumentWrite] = []
        try:
            for write in islice(stream, CHUNK_LENGTH):
                chunk.append(write)  # noqa: PERF402 - kept when the stream breaks
        except BaseException:
            if chunk:
                yield chunk
            raise
        if not chunk:
            return
        yield chunk
