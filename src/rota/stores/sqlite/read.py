"""Pages, counts, single jobs, the next due time and portions of all records: what only reads.

None of these coroutines ever waits: the reader's thread runs them to their end.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias

import apsw

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    Page,
    complete_history,
    cut_page,
    decode_cursor,
)
from rota.stores.kernel.partitions import find_next_due
from rota.stores.kernel.records import JobPortion, cut_at_size, describe_unreadable, unseal
from rota.stores.kernel.unit import run
from rota.stores.protocol import KeptDocument, KeptJob, QueueDepth, UnreadableJob
from rota.stores.rows import (
    COLUMNS,
    Row,
    decode_attempt,
    decode_attempts,
    decode_job,
    decode_readable,
    encode_ids,
    to_instant,
    to_micros,
)
from rota.stores.sqlite.lease import answer_step
from rota.stores.sqlite.queries import QUERIES
from rota.stores.survey import make_depths

_EVER = (1 << 63) - 1
_NO_LIMIT = -1
FEW = 5_000
"""Up to this many READY jobs, a page of them reads all READY jobs instead of all jobs in order."""

MOST_CHOICES = 100
"""How many choices of queues and tenants are remembered."""

Choice: TypeAlias = tuple[frozenset[str] | None, frozenset[str] | None]

_UNSUCCESSFUL = frozenset({JobStatus.PENDING, JobStatus.FAILED, JobStatus.BLOCKED})
_BODY, _SET_ASIDE = -2, -1
_ROW_SIZE = 500
"""About the number of bytes of a row besides its body."""

_UNTIL_AT = 16
"""The position of ``lease_until`` in a row."""


async def get(
    connection: apsw.Connection, tenant: str, job_ids: Sequence[JobId]
) -> dict[JobId, Job]:
    """See ``JobStore.get``; unreadable jobs are left out, as in all lists."""
    rows = connection.execute(QUERIES.read_jobs, (encode_ids(job_ids),))
    return {job.id: job for job in decode_readable(row for row in rows if row[1] == tenant)}


async def find(
    connection: apsw.Connection, wanted: JobFilter, cursor: str | None, limit: int
) -> Page:
    """A page of the jobs of the filter's tenant."""
    created_at, job_id = (_EVER, "") if cursor is None else _read_cursor(cursor)
    *others, until, is_recurring = _encode_filter(wanted)
    values = (*others, min(until, created_at), is_recurring, created_at, job_id, limit + 1)
    statement = QUERIES.find_listed.replace(":jobs", _choose_page(connection, wanted))
    return cut_page(decode_readable(connection.execute(statement, values)), limit)


async def count(connection: apsw.Connection, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of its tenant the filter accepts."""
    most = _NO_LIMIT if limit is None else limit
    if wanted == JobFilter(tenant=wanted.tenant):
        counted = connection.execute(QUERIES.count_all, (wanted.tenant, most))
    else:
        statement = QUERIES.count_listed.replace(":jobs", _choose_list(wanted))
        counted = connection.execute(statement, (*_encode_filter(wanted), most))
    ((number,),) = list(counted)
    return int(number)


async def attempts(connection: apsw.Connection, tenant: str, job_id: JobId) -> list[Attempt]:
    """See ``JobStore.attempts``."""
    stored = map(decode_attempt, connection.execute(QUERIES.read_attempts, (tenant, job_id)))
    job = (await get(connection, tenant, [job_id])).get(job_id)
    return list(stored) if job is None else complete_history(job, stored)


async def results(
    connection: apsw.Connection, tenant: str, job_ids: Sequence[JobId]
) -> dict[JobId, bytes]:
    """See ``JobStore.results``."""
    return dict(connection.execute(QUERIES.read_results, (tenant, encode_ids(job_ids))))


async def find_dependents(
    connection: apsw.Connection, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """See ``JobStore.find_dependents``."""
    values = (encode_ids(job_ids), tenant, limit)
    return decode_readable(connection.execute(QUERIES.find_dependents, values))


async def find_expired(
    connection: apsw.Connection,
    now: datetime,
    limit: int,
    after: tuple[datetime, JobId] | None,
) -> list[Job]:
    """See ``JobStore.find_expired``; a page is empty only if there are no more."""
    last: Row = (-_EVER, "") if after is None else (to_micros(after[0]), after[1])
    while True:
        values = (to_micros(now), *last, limit)
        rows = connection.execute(QUERIES.find_expired, values).fetchall()
        found = decode_readable(rows)
        if found or not rows:
            return found
        last = rows[-1][_UNTIL_AT], rows[-1][0]


async def next_due_at(
    connection: apsw.Connection,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """See ``JobStore.next_due_at``."""
    plan = find_next_due(queues, tenants, to_micros(now))
    due_at = run(plan, partial(answer_step, connection))
    return None if due_at is None else to_instant(due_at)


async def survey(
    connection: apsw.Connection, now: datetime, tenant: str | None
) -> list[QueueDepth]:
    """See ``JobStore.survey``."""
    return make_depths(connection.execute(QUERIES.survey, (to_micros(now), tenant)), to_instant)


def _choose_list(wanted: JobFilter) -> str:
    """The list with the fewest jobs that are not wanted: most are COMPLETED, and in the way."""
    if wanted.only_dead:
        return QUERIES.list_dead
    if wanted.is_of_series:
        return QUERIES.list_recurring
    return QUERIES.list_unsuccessful if wanted.status in _UNSUCCESSFUL else QUERIES.list_any


def _choose_page(connection: apsw.Connection, wanted: JobFilter) -> str:
    """The same for a page, which is put in order where few jobs are running or READY."""
    chosen = _choose_list(wanted)
    if chosen == QUERIES.list_any and wanted.status is JobStatus.RUNNING:
        return QUERIES.list_running
    if chosen == QUERIES.list_any and wanted.status is JobStatus.READY:
        ((number,),) = list(connection.execute(QUERIES.count_ready, (wanted.tenant, FEW + 1)))
        return QUERIES.list_few_ready if number <= FEW else chosen
    return chosen


def _encode_filter(wanted: JobFilter) -> Row:
    lowest, highest = wanted.priority_min, wanted.priority_max
    after, before = wanted.created_after, wanted.created_before
    return (
        wanted.tenant,
        wanted.queue,
        wanted.status,
        -_EVER if lowest is None else lowest,
        _EVER if highest is None else highest,
        -_EVER if after is None else to_micros(after),
        _EVER if before is None else to_micros(before) - 1,
        wanted.is_recurring,
    )


def _read_cursor(cursor: str) -> tuple[int, JobId]:
    created_at, job_id = decode_cursor(cursor)
    return to_micros(created_at), job_id


async def read_document_portion(
    connection: apsw.Connection, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    """A portion of the documents after a collection and key."""
    rows = connection.execute(QUERIES.dump_documents, (collection, key, limit))
    documents = map(KeptDocument._make, rows)
    return list(cut_at_size(documents, lambda document: len(document.body)))


async def read_job_portion(connection: apsw.Connection, last_id: JobId, limit: int) -> JobPortion:
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


class NextDue(NamedTuple):
    """The instant at which the next job is due; None if there is none."""

    at: datetime | None


def make_choice(queues: Collection[str] | None, tenants: Collection[str] | None) -> Choice:
    """Queues and tenants as a key."""
    return (
        None if queues is None else frozenset(queues),
        None if tenants is None else frozenset(tenants),
    )


class DueCache:
    """The next due times found in one version of the file. A new version empties it.

    An idle worker asks again and again. While the file has not changed, and the due time has not
    come, there is no need to read the file.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._found: dict[Choice, NextDue] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def put(self, version: int | None, choice: Choice, due: NextDue, now: datetime) -> None:
        """Remember what was found in this version or a later one, unless a job is due now."""
        if version is None or (due.at is not None and due.at <= now):
            return
        if version != self._version or len(self._found) >= MOST_CHOICES:
            self._version, self._found = version, {}
        self._found[choice] = due

    def find(self, version: int | None, choice: Choice, now: datetime) -> NextDue | None:
        """The due time, if it is known for this version and has not come."""
        if version != self._version:
            self._version, self._found = None, {}
            return None
        due = self._found.get(choice)
        if due is None or (due.at is not None and due.at <= now):
            return None
        return due
