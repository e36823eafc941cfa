"""``dump`` and ``load``: portions of the file, and documents stored as they are."""

from collections.abc import Sequence

import apsw

from rota.errors import DamagedJobError
from rota.jobs import JobId
from rota.stores.kernel.records import JobPortion, cut_at_size, describe_unreadable, unseal
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.stores.rows import COLUMNS, Row, decode_attempts, decode_job, encode_ids
from rota.stores.sqlite.queries import QUERIES

_BODY, _SET_ASIDE = -2, -1
_ROW_SIZE = 500
"""About the number of bytes of a row besides its body."""


def read_document_portion(
    connection: apsw.Connection, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    """A portion of the documents after a collection and key."""
    rows = connection.execute(QUERIES.dump_documents, (collection, key, limit))
    documents = map(KeptDocument._make, rows)
    return list(cut_at_size(documents, lambda document: len(document.body)))


def read_job_portion(connection: apsw.Connection, last_id: JobId, limit: int) -> JobPortion:
    """A portion of the jobs after an id."""
    found = connection.execute(QUERIES.dump_jobs, (last_id, limit))
    rows = list(cut_at_size(found, lambda row: len(row[_BODY]) + _ROW_SIZE))
    if not rows:
        return JobPortion((), None)
    attempts: dict[JobId, list[Row]] = {row[0]: [] for row in rows}
    for row in connection.execute(QUERIES.dump_attempts, (rows[0][0], rows[-1][0])):
        attempts.setdefault(row[0], []).append(row)
    results = dict(connection.execute(QUERIES.dump_results, (rows[0][0], rows[-1][0])))
    records = [_read_record(connection, row, attempts[row[0]], results.get(row[0])) for row in rows]
    return JobPortion(records, rows[-1][0])


def load_documents(connection: apsw.Connection, records: Sequence[Record]) -> int:
    """Store the documents among these records; how many were new."""
    before = connection.total_changes()
    documents = [each for each in records if isinstance(each, KeptDocument)]
    connection.executemany(QUERIES.load_document, documents)
    return connection.total_changes() - before


def _read_record(
    connection: apsw.Connection, row: Row, attempts: Sequence[Row], result: bytes | None
) -> KeptJob | UnreadableJob:
    if row[_SET_ASIDE] is not None:
        return _read_unreadable(connection, row, attempts, row[_SET_ASIDE])
    try:
        return KeptJob(decode_job(row), decode_attempts(row[0], attempts), result)
    except DamagedJobError as damage:
        return _read_unreadable(connection, row, attempts, damage.reason)


def _read_unreadable(
    connection: apsw.Connection, row: Row, attempts: Sequence[Row], reason: str
) -> UnreadableJob:
    content = unseal(row[_BODY])
    if content is None:
        columns = dict(zip((*COLUMNS, "set_aside"), row, strict=True))
        content = describe_unreadable("sqlite", reason, {**columns, "attempts": attempts})
    job_id, tenant, queue = row[:3]
    edges = connection.execute(QUERIES.find_parents, (encode_ids([job_id]),))
    return UnreadableJob(job_id, tenant, queue, tuple(parent for _, parent in edges), content)
