"""``dump``: everything in the file, a portion at a time."""

from collections import defaultdict
from collections.abc import Sequence

import apsw

from rota.errors import DamagedJobError
from rota.jobs import Attempt, JobId
from rota.stores.kernel.records import JobPortion, cut_at_size, describe_unreadable, unseal, walk
from rota.stores.protocol import KeptDocument, KeptJob, Portion, UnreadableJob
from rota.stores.sqlite.jobs.records.queries import QUERIES
from rota.stores.sqlite.jobs.rows import Row, decode_attempt, decode_job
from rota.stores.sqlite.threads import Reader

_COLUMNS = (
    *("id", "tenant", "queue", "kind", "priority", "status", "due_at", "created_at"),
    *("updated_at", "attempt_count", "loss_count", "last_error", "ending", "lease_token"),
    *("lease_worker", "lease_taken_at", "lease_until", "last_token", "deferral"),
    *("idempotency_key", "occurrence", "body", "set_aside"),
)
_BODY, _ASIDE = -2, -1
_ROW_SIZE = 500
"""Bytes that a row takes besides its body, more or less."""


async def dump(reader: Reader, cursor: str | None, limit: int) -> Portion:
    """The portion behind a cursor; see the protocol."""

    async def read_documents(collection: str, key: str) -> Sequence[KeptDocument]:
        return await reader.run(
            lambda connection: _read_documents(connection, collection, key, limit)
        )

    async def read_jobs(place: str) -> JobPortion:
        return await reader.run(lambda connection: _read_jobs(connection, place, limit))

    return await walk(cursor, read_documents, read_jobs)


def _read_documents(
    connection: apsw.Connection, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    rows = connection.execute(QUERIES.dump_documents, (collection, key, limit))
    documents = map(KeptDocument._make, rows)
    return list(cut_at_size(documents, lambda document: len(document.body)))


def _read_jobs(connection: apsw.Connection, last_id: JobId, limit: int) -> JobPortion:
    found = connection.execute(QUERIES.dump_jobs, (last_id, limit))
    rows = list(cut_at_size(found, lambda row: len(row[_BODY]) + _ROW_SIZE))
    if not rows:
        return JobPortion((), None)
    attempts: defaultdict[JobId, list[Row]] = defaultdict(list)
    for row in connection.execute(QUERIES.dump_attempts, (rows[0][0], rows[-1][0])):
        attempts[row[0]].append(row)
    records = [_read_record(connection, row, attempts[row[0]]) for row in rows]
    return JobPortion(records, rows[-1][0])


def _read_record(
    connection: apsw.Connection, row: Row, attempts: Sequence[Row]
) -> KeptJob | UnreadableJob:
    if row[_ASIDE] is not None:
        return _set_aside(connection, row, attempts, row[_ASIDE])
    try:
        return KeptJob(decode_job(row[:_ASIDE]), _read_attempts(row[0], attempts))
    except DamagedJobError as damage:
        return _set_aside(connection, row, attempts, damage.reason)


def _read_attempts(job_id: JobId, rows: Sequence[Row]) -> tuple[Attempt, ...]:
    try:
        return tuple(map(decode_attempt, rows))
    except (OverflowError, TypeError) as error:
        raise DamagedJobError(job_id, f"an attempt: {error}") from error


def _set_aside(
    connection: apsw.Connection, row: Row, attempts: Sequence[Row], reason: str
) -> UnreadableJob:
    content = unseal(row[_BODY])
    if content is None:
        kept = {**dict(zip(_COLUMNS, row, strict=True)), "attempts": attempts}
        content = describe_unreadable("sqlite", reason, kept)
    job_id, tenant, queue = row[:3]
    parents = connection.execute(QUERIES.dump_parents, (job_id,))
    return UnreadableJob(job_id, tenant, queue, tuple(each for (each,) in parents), content)
