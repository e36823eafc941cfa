"""``dump`` and ``load`` on dictionaries."""

from collections.abc import Sequence
from itertools import islice

from rota.jobs import JobId
from rota.stores.memory.documents import Collections
from rota.stores.memory.tables import JobTables, copied
from rota.stores.protocol import (
    Document,
    KeptDocument,
    KeptJob,
    Portion,
    Record,
    UnreadableJob,
)
from rota.stores.sql.portions import JobPortion, cut_at_size, make_stand_in, walk

Unreadable = dict[JobId, UnreadableJob]
"""What came from another store and cannot be read; it is only kept."""


async def dump(
    collections: Collections,
    tables: JobTables,
    unreadable: Unreadable,
    cursor: str | None,
    limit: int,
) -> Portion:
    """The portion behind a cursor."""

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        found = (
            KeptDocument(name, *document)
            for name, documents in sorted(collections.items())
            for _, document in sorted(documents.items())
            if (name, document.key) > (collection, key)
        )
        return list(cut_at_size(islice(found, limit), lambda document: len(document.body)))

    async def read_jobs(place: str) -> JobPortion:
        ids = sorted(each for each in tables.jobs if each > place)[:limit]
        records = [
            unreadable[each]
            if each in unreadable
            else KeptJob(copied(tables.jobs[each]), tuple(tables.attempts.get(each, ())))
            for each in ids
        ]
        return JobPortion(records, ids[-1] if ids else None)

    return await walk(cursor, read_documents, read_jobs)


def load(
    collections: Collections, tables: JobTables, unreadable: Unreadable, records: Sequence[Record]
) -> int:
    """Keep what is new; how much that was."""
    return sum(_load_one(collections, tables, unreadable, each) for each in records)


def _load_one(
    collections: Collections, tables: JobTables, unreadable: Unreadable, record: Record
) -> bool:
    if isinstance(record, KeptDocument):
        documents = collections.setdefault(record.collection, {})
        is_new = record.key not in documents
        documents.setdefault(record.key, Document(record.key, record.version, record.body))
        return is_new
    job = make_stand_in(record) if isinstance(record, UnreadableJob) else copied(record.job)
    if job.id in tables.jobs:
        return False
    tables.put(job)
    if isinstance(record, UnreadableJob):
        unreadable[job.id] = record
    else:
        tables.attempts[job.id].extend(record.attempts)
    return True
