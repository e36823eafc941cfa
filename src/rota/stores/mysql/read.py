"""Pages, counts and single jobs, and portions of all records: what only reads."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    Page,
    check_limit,
    complete_history,
    cut_page,
    decode_cursor,
)
from rota.stores.kernel.partitions import find_next_due
from rota.stores.kernel.records import (
    JobPortion,
    cut_at_size,
    describe_unreadable,
    unseal,
)
from rota.stores.kernel.unit import run_async
from rota.stores.mysql.connections import Session
from rota.stores.mysql.lease import answer_step
from rota.stores.mysql.queries import QUERIES
from rota.stores.mysql.unit import AWAITED_AT, decode, decode_readable, read_text
from rota.stores.protocol import KeptDocument, KeptJob, QueueDepth, UnreadableJob
from rota.stores.rows import COLUMNS, Row, decode_attempts, to_instant, to_micros
from rota.stores.survey import make_depths

_EVER = (1 << 62) - 1
_UNTIL_AT = 16
_ROW_SIZE = 500
"""About the number of bytes of a job besides its body."""


async def get(session: Session, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
    """See ``JobStore.get``; unreadable jobs are left out, as in all lists."""
    rows = await session.fetch_of(QUERIES.read_jobs, set(job_ids))
    return {job.id: job for job in decode_readable(rows) if job.tenant == tenant}


async def results(session: Session, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
    """See ``JobStore.results``."""
    rows = await session.fetch_of(QUERIES.read_results, set(job_ids), tenant=tenant)
    return {job_id.decode(): body for job_id, body in rows}


async def find(session: Session, wanted: JobFilter, cursor: str | None, limit: int) -> Page:
    """A page of the jobs of the filter's tenant."""
    check_limit(limit)
    after, after_id = _EVER, ""
    if cursor is not None:
        created_at, after_id = decode_cursor(cursor)
        after = to_micros(created_at)
    values = _encode_filter(wanted)
    values["last"] = min(values["last"], after)
    place = {"after": after, "after_id": after_id, "limit": limit + 1}
    statement = QUERIES.find_jobs.replace(":index", _index_for(wanted))
    return cut_page(decode_readable(await session.fetch(statement, **values, **place)), limit)


async def count(session: Session, wanted: JobFilter, limit: int | None) -> int:
    """How many jobs of its tenant the filter accepts."""
    statement = QUERIES.count_accepted.replace(":index", _index_for(wanted))
    most = _EVER if limit is None else limit
    ((number,),) = await session.fetch(statement, **_encode_filter(wanted), limit=most)
    return int(number)


def _index_for(wanted: JobFilter) -> str:
    if wanted.only_dead:
        return "jobs_dead"
    if wanted.is_of_series:
        return "jobs_recurring"
    return "jobs_listed" if wanted.status is None else "jobs_by_status"


def _encode_filter(wanted: JobFilter) -> dict[str, Any]:
    after, before = wanted.created_after, wanted.created_before
    return {
        "tenant": wanted.tenant,
        "queue": wanted.queue,
        "status": wanted.status,
        "series_status": wanted.status if wanted.is_of_series else None,
        "lowest": -_EVER if wanted.priority_min is None else wanted.priority_min,
        "highest": _EVER if wanted.priority_max is None else wanted.priority_max,
        "first": -_EVER if after is None else to_micros(after),
        "last": _EVER if before is None else to_micros(before) - 1,
        "is_recurring": wanted.is_recurring,
        "only_dead": wanted.only_dead,
    }


async def attempts(session: Session, tenant: str, job_id: JobId) -> list[Attempt]:
    """See ``JobStore.attempts``."""
    rows = await session.fetch_of(QUERIES.read_jobs, [job_id])
    if not rows or rows[0][1].decode() != tenant:
        return []
    tried = decode_attempts(job_id, await _read_attempts(session, [job_id]))
    jobs = decode_readable(rows)
    return complete_history(jobs[0], tried) if jobs else list(tried)


async def _read_attempts(session: Session, job_ids: Sequence[JobId]) -> list[Row]:
    rows = await session.fetch_of(QUERIES.read_attempts, job_ids)
    return [tuple(map(read_text, row)) for row in rows]


async def find_dependents(
    session: Session, tenant: str, job_ids: Sequence[JobId], limit: int
) -> list[Job]:
    """See ``JobStore.find_dependents``."""
    rows = await session.fetch_of(QUERIES.find_dependents, set(job_ids), tenant=tenant, limit=limit)
    return decode_readable(rows)


async def survey(session: Session, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """See ``JobStore.survey``."""
    rows = await session.fetch(QUERIES.survey, now=to_micros(now), tenant=tenant)
    return make_depths((tuple(map(read_text, row)) for row in rows), lambda at: to_instant(int(at)))


async def next_due_at(
    session: Session,
    now: datetime,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
) -> datetime | None:
    """See ``JobStore.next_due_at``."""
    plan = find_next_due(queues, tenants, to_micros(now))
    due_at = await run_async(plan, partial(answer_step, session))
    return None if due_at is None else to_instant(due_at)


async def find_expired(
    session: Session, now: datetime, limit: int, after: tuple[datetime, JobId] | None
) -> list[Job]:
    """See ``JobStore.find_expired``; a page is empty only if there are no more."""
    last = (-(1 << 62), "") if after is None else (to_micros(after[0]), after[1])
    while True:
        rows = await session.fetch(
            QUERIES.find_expired, now=to_micros(now), after=last[0], after_id=last[1], limit=limit
        )
        found = decode_readable(rows)
        if found or not rows:
            return found
        last = rows[-1][_UNTIL_AT], rows[-1][0].decode()


async def read_document_portion(
    session: Session, collection: str, key: str, limit: int
) -> list[KeptDocument]:
    """A portion of the documents after a collection and key."""
    place = {"collection": collection, "after": key}
    sizes = await session.fetch(QUERIES.measure_documents, **place, limit=limit)
    if not sizes:
        return []
    *_, (last_collection, last, _) = cut_at_size(sizes, lambda row: int(row[2]))
    rows = await session.fetch(
        QUERIES.dump_documents, **place, last_collection=last_collection, last=last
    )
    return [
        KeptDocument(collection.decode(), key.decode(), version, body)
        for collection, key, version, body in rows
    ]


async def read_job_portion(session: Session, after: JobId, limit: int) -> JobPortion:
    """A portion of the jobs after an id."""
    sizes = await session.fetch(QUERIES.measure_jobs, after=after, limit=limit)
    ids = [row[0].decode() for row in cut_at_size(sizes, lambda row: int(row[1]) + _ROW_SIZE)]
    if not ids:
        return JobPortion((), None)
    tried: defaultdict[JobId, list[Row]] = defaultdict(list)
    for row in await _read_attempts(session, ids):
        tried[row[0]].append(row)
    kept: dict[bytes, bytes] = dict(await session.fetch_of(QUERIES.dump_results, ids))
    records = [
        await _read_record(session, row, tried[row[0].decode()], kept.get(row[0]))
        for row in await session.fetch_of(QUERIES.read_jobs, ids)
    ]
    return JobPortion(records, ids[-1])


async def _read_record(
    session: Session, row: Row, tried: Sequence[Row], result: bytes | None
) -> KeptJob | UnreadableJob:
    reason = read_text(row[AWAITED_AT + 1])
    if reason is None:
        try:
            return KeptJob(decode(row), decode_attempts(row[0].decode(), tried), result)
        except DamagedJobError as damage:
            reason = damage.reason
    content = unseal(row[AWAITED_AT - 1])
    if content is None:
        texts = (one.decode(errors="replace") if isinstance(one, bytes) else one for one in row)
        columns = dict(zip(COLUMNS, texts, strict=False))
        content = describe_unreadable("mysql", reason, {**columns, "attempts": tried})
    job_id, tenant, queue = (each.decode() for each in row[:3])
    links = await session.fetch_of(QUERIES.find_parents, [job_id])
    return UnreadableJob(
        job_id, tenant, queue, tuple(parent.decode() for _, parent in links), content
    )
