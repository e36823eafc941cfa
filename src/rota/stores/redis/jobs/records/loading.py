"""``load``: records are put under the keys of a store as they are."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from rota.jobs import format_instant
from rota.stores.kernel.records import check_job_ids, make_stand_in, seal
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.rows import encode_attempt, encode_body, encode_head, encode_identity
from rota.stores.redis.scripts import load_script

LOAD_DOCUMENTS = load_script(__package__, "load_documents")
LOAD_JOBS = load_script(__package__, "load_jobs")


async def load(database: Database, records: Sequence[Record], now: datetime) -> int:
    """Keep what is new; how much that was. Documents are one step, and jobs another."""
    check_job_ids(records)
    documents = [part for each in records for part in _document_parts(each)]
    jobs = [part for each in records for part in _job_parts(each)]
    new_count = 0
    if documents:
        new_count += await database.write(LOAD_DOCUMENTS, database.keys.documents, documents)
    if jobs:
        arguments = [format_instant(now), *jobs]
        new_count += await database.write(LOAD_JOBS, database.keys.jobs, arguments)
    return new_count


def _document_parts(record: Record) -> Iterator[Any]:
    if isinstance(record, KeptDocument):
        yield f"{record.collection}\0{record.key}"
        yield from (record.version, record.body)


def _job_parts(record: Record) -> Iterator[Any]:
    if isinstance(record, KeptJob):
        job, attempts = record.job, [encode_attempt(each) for each in record.attempts]
        yield from (job.id, encode_head(job), encode_body(job), encode_identity(job))
        yield from (len(attempts), *attempts)
    elif isinstance(record, UnreadableJob):
        head = encode_head(make_stand_in(record))
        yield from (record.job_id, head, seal(record.content), "", 0)
