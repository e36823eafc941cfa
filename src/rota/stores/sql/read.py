"""Pages, counts, single jobs, documents, and portions of all records: what only reads."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Generic

from rota.errors import DamagedJobError
from rota.jobs import (
    Attempt,
    Job,
    JobFilter,
    JobId,
    Page,
    complete_history,
    cut_page,
    decode_cursor,
)
from rota.stores.kernel.partitions import find_next_due
from rota.stores.kernel.records import JobPortion, cut_at_size, describe_unreadable, unseal
from rota.stores.kernel.unit import answer_by, run_async
from rota.stores.protocol import Document, KeptDocument, KeptJob, QueueDepth, UnreadableJob
from rota.stores.rows import (
    COLUMNS,
    Row,
    decode_attempts,
    decode_readable,
    to_instant,
    to_micros,
)
from rota.stores.sql.partitions import Steps
from rota.stores.sql.session import Session, SessionT
from rota.stores.survey import make_depths

EVER = (1 << 62) - 1
"""More than any number in a row."""

_BODY_AT, _UNTIL_AT, _ASIDE_AT = COLUMNS.index("body"), COLUMNS.index("lease_until"), len(COLUMNS)
_ROW_SIZE = 500
"""About the number of bytes of a row besides its body."""


class Reads(ABC, Generic[SessionT]):
    """Reads jobs, in the statements of a dialect."""

    @abstractmethod
    def _choose_list(self, wanted: JobFilter) -> str:
        """The list with the fewest jobs that are not wanted: ``:jobs`` in a statement."""

    async def _choose_page(self, session: SessionT, wanted: JobFilter) -> str:  # noqa: ARG002 - for those that look first
        """The same for a page."""
        return self._choose_list(wanted)

    def _choose_count(self, session: SessionT, wanted: JobFilter) -> str:
        """The statement that counts."""
        return session.queries.count_listed.replace(":jobs", self._choose_list(wanted))

    async def get(
        self, session: SessionT, tenant: str, job_ids: Sequence[JobId]
    ) -> dict[JobId, Job]:
        """See ``JobStore.get``; unreadable jobs are left out, as in all lists."""
        rows = await session.fetch(session.queries.read_jobs, ids=sorted(set(job_ids)))
        own = (row for row in rows if row[1] == tenant)
        return {job.id: job for job in decode_readable(own, session.decode)}

    async def find(
        self, session: SessionT, wanted: JobFilter, cursor: str | None, limit: int
    ) -> Page:
        """A page of the jobs that the filter accepts, which has a tenant."""
        after, after_id = EVER, ""
        if cursor is not None:
            created_at, after_id = decode_cursor(cursor)
            after = to_micros(created_at)
        values = _encode_filter(wanted)
        values["last"] = min(values["last"], after)
        place = {"after": after, "after_id": after_id, "limit": limit + 1}
        jobs = await self._choose_page(session, wanted)
        statement = session.queries.find_listed.replace(":jobs", jobs)
        rows = await session.fetch(statement, **values, **place)
        return cut_page(decode_readable(rows, session.decode), limit)

    async def count(self, session: SessionT, wanted: JobFilter, limit: int | None) -> int:
        """How many jobs of its tenant the filter accepts."""
        most = EVER if limit is None else limit
        statement, values = self._choose_count(session, wanted), _encode_filter(wanted)
        ((number,),) = await session.fetch(statement, **values, limit=most)
        return int(number)

    async def attempts(self, session: SessionT, tenant: str, job_id: JobId) -> list[Attempt]:
        """See ``JobStore.attempts``."""
        job = (await self.get(session, tenant, [job_id])).get(job_id)
        rows = await session.fetch(session.queries.read_attempts, tenant=tenant, job_id=job_id)
        tried = decode_attempts(job_id, rows)
        return list(tried) if job is None else complete_history(job, tried)

    async def results(
        self, session: SessionT, tenant: str, job_ids: Sequence[JobId]
    ) -> dict[JobId, bytes]:
        """See ``JobStore.results``."""
        ids = sorted(set(job_ids))
        return dict(await session.fetch(session.queries.read_results, tenant=tenant, ids=ids))

    async def find_dependents(
        self, session: SessionT, tenant: str, job_ids: Sequence[JobId], limit: int
    ) -> list[Job]:
        """See ``JobStore.find_dependents``."""
        rows = await session.fetch(
            session.queries.find_dependents, ids=sorted(set(job_ids)), tenant=tenant, limit=limit
        )
        return decode_readable(rows, session.decode)

    async def survey(
        self, session: SessionT, now: datetime, tenant: str | None
    ) -> list[QueueDepth]:
        """See ``JobStore.survey``."""
        rows = await session.fetch(session.queries.survey, now=to_micros(now), tenant=tenant)
        return make_depths(rows, lambda micros: to_instant(int(micros)))

    async def find_expired(
        self, session: SessionT, now: datetime, limit: int, after: tuple[datetime, JobId] | None
    ) -> list[Job]:
        """See ``JobStore.find_expired``; a page is empty only if there are no more."""
        until, last_id = (-EVER, "") if after is None else (to_micros(after[0]), after[1])
        place = {"now": to_micros(now), "after": until, "after_id": last_id, "limit": limit}
        while rows := list(await session.fetch(session.queries.find_expired, **place)):
            if found := decode_readable(rows, session.decode):
                return found
            place |= {"after": rows[-1][_UNTIL_AT], "after_id": rows[-1][0]}
        return []

    async def next_due_at(
        self,
        session: SessionT,
        now: datetime,
        queues: Collection[str] | None,
        tenants: Collection[str] | None,
    ) -> datetime | None:
        """See ``JobStore.next_due_at``."""
        plan = find_next_due(queues, tenants, to_micros(now))
        due_at = await run_async(plan, answer_by(Steps(session)))
        return None if due_at is None else to_instant(due_at)

    async def read_document_portion(
        self, session: SessionT, collection: str, key: str, limit: int
    ) -> list[KeptDocument]:
        """A portion of the documents after a collection and key."""
        place = {"collection": collection, "after": key, "limit": limit}
        rows = await session.fetch(session.queries.dump_documents, **place)
        return [*cut_at_size(map(KeptDocument._make, rows), lambda document: len(document.body))]

    async def read_job_portion(self, session: SessionT, after: JobId, limit: int) -> JobPortion:
        """A portion of the jobs after an id."""
        queries = session.queries
        found = await session.fetch(queries.dump_jobs, after=after, limit=limit)
        rows = list(cut_at_size(found, lambda row: len(row[_BODY_AT]) + _ROW_SIZE))
        if not rows:
            return JobPortion((), None)
        span = {"first": rows[0][0], "last": rows[-1][0]}
        tried: defaultdict[JobId, list[Row]] = defaultdict(list)
        for row in await session.fetch(queries.dump_attempts, **span):
            tried[row[0]].append(row)
        kept: dict[JobId, bytes] = dict(await session.fetch(queries.dump_results, **span))
        records = [
            await _read_record(session, row, tried[row[0]], kept.get(row[0])) for row in rows
        ]
        return JobPortion(records, span["last"])


def _encode_filter(wanted: JobFilter) -> dict[str, Any]:
    after, before = wanted.created_after, wanted.created_before
    return {
        "tenant": wanted.tenant,
        "queue": wanted.queue,
        "status": wanted.status,
        "lowest": -EVER if wanted.priority_min is None else wanted.priority_min,
        "highest": EVER if wanted.priority_max is None else wanted.priority_max,
        "first": -EVER if after is None else to_micros(after),
        "last": EVER if before is None else to_micros(before) - 1,
        "is_recurring": wanted.is_recurring,
    }


async def _read_record(
    session: Session, row: Row, tried: Sequence[Row], result: bytes | None
) -> KeptJob | UnreadableJob:
    if row[_ASIDE_AT] is not None:
        return await _read_unreadable(session, row, tried, row[_ASIDE_AT])
    try:
        return KeptJob(session.decode(row), decode_attempts(row[0], tried), result)
    except DamagedJobError as damage:
        return await _read_unreadable(session, row, tried, damage.reason)


async def _read_unreadable(
    session: Session, row: Row, tried: Sequence[Row], reason: str
) -> UnreadableJob:
    content = unseal(row[_BODY_AT])
    if content is None:
        shown = (*map(_show, row[:_BODY_AT]), *row[_BODY_AT:])
        columns = dict(zip((*COLUMNS, "set_aside"), shown, strict=True))
        attempts = [tuple(map(_show, each)) for each in tried]
        content = describe_unreadable(session.name, reason, {**columns, "attempts": attempts})
    job_id, tenant, queue = map(_show, row[:3])
    links = await session.fetch(session.queries.find_parents, ids=[job_id])
    return UnreadableJob(job_id, tenant, queue, tuple(parent for _, parent in links), content)


def _show(value: Any) -> Any:
    """Text with every byte that is not UTF-8 written out."""
    if isinstance(value, str):
        value = value.encode(errors="surrogateescape")
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


async def scan_page(session: Session, collection: str, after: str, limit: int) -> list[Document]:
    """The documents after a key, in the order of keys."""
    place = {"collection": collection, "after": after, "limit": limit}
    return [*map(Document._make, await session.fetch(session.queries.scan_documents, **place))]


async def read_documents(
    session: Session, collection: str, keys: Sequence[str]
) -> dict[str, Document]:
    """The documents that exist among these keys."""
    statement = session.queries.read_documents
    rows = await session.fetch(statement, collection=collection, keys=sorted(set(keys)))
    return {document.key: document for document in map(Document._make, rows)}
