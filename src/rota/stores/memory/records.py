"""Portions of everything in memory, for ``dump``."""

from collections.abc import Mapping, Sequence
from itertools import islice

from rota.jobs import JobId
from rota.stores.kernel.records import JobPortion, cut_at_size
from rota.stores.memory.tables import JobTables, copied
from rota.stores.protocol import Document, KeptDocument, KeptJob, UnreadableJob


def read_document_portion(
    collections: Mapping[str, Mapping[str, Document]], after: tuple[str, str], limit: int
) -> Sequence[KeptDocument]:
    """The documents after a collection and key."""
    found = (
        KeptDocument(name, *document)
        for name, documents in sorted(collections.items())
        for _, document in sorted(documents.items())
        if (name, document.key) > after
    )
    return list(cut_at_size(islice(found, limit), lambda document: len(document.body)))


def read_job_portion(tables: JobTables, after: JobId, limit: int) -> JobPortion:
    """The jobs after an id."""
    ids = sorted(each for each in tables.jobs if each > after)[:limit]
    return JobPortion([_read_job(tables, each) for each in ids], ids[-1] if ids else None)


def _read_job(tables: JobTables, job_id: JobId) -> KeptJob | UnreadableJob:
    job = tables.jobs[job_id]
    content = tables.unreadable.get(job_id)
    if content is not None:
        return UnreadableJob(job_id, job.tenant, job.queue, job.dependencies, content)
    return KeptJob(copied(job), tuple(tables.attempts.get(job_id, ())))
