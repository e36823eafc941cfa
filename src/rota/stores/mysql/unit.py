"""The kernel's queries, and the commit of its writes, in one transaction; and two native paths."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from asyncmy import errors
from msgspec.structs import replace

from rota.errors import DamagedJobError
from rota.jobs import Attempt, Change, Job, JobId, JobStatus
from rota.stores import rows as rows_module
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.records import UNREADABLE_COPY, load_jobs, seal
from rota.stores.kernel.settlement import find_plain, merge_answers
from rota.stores.kernel.unit import (
    Committed,
    Ended,
    NewJob,
    Plan,
    Query,
    ReadAncestors,
    ReadDependents,
    ReadEnded,
    ReadJobs,
    ReadStatuses,
    ReadTwins,
    ReadWaiting,
    Stored,
    Waiting,
    Writes,
    run_async,
)
from rota.stores.mysql.connections import DUPLICATE, Session, code_of
from rota.stores.mysql.queries import QUERIES
from rota.stores.protocol import Applied, Inserted, KeptDocument, Record
from rota.stores.rows import (
    Row,
    decode_job,
    encode_attempt,
    encode_job,
    encode_unreadable,
    read_payload,
    to_instant,
    to_micros,
)

Answer = TypeVar("Answer")

AWAITED_AT = 22
_BODY_AT = 21
_encode_json = msgspec.json.Encoder().encode


def read_text(value: Any) -> Any:
    """A name as text; other values as they are."""
    return value.decode() if isinstance(value, bytes) else value


def read_row(row: Row) -> Row:
    """The columns of a job with their names as text."""
    return (*map(read_text, row[:_BODY_AT]), *row[_BODY_AT:])


def decode(row: Row) -> Job:
    """The job in ``job_columns``; DamagedJobError if they are not a job's."""
    try:
        return decode_job(read_row(row))
    except UnicodeDecodeError as error:
        raise DamagedJobError(row[0].decode(), str(error)) from error


def decode_readable(rows: Iterable[Row], *, skips_damaged: bool = True) -> list[Job]:
    """As that of ``rows``."""
    return rows_module.decode_readable(rows, decode, skips_damaged=skips_damaged)


def encode(job: Job, now: datetime, open_count: int = 0, *, is_awaited: bool = False) -> Row:
    """The columns of ``insert_jobs``."""
    row = encode_job(job, now, open_count, is_awaited=is_awaited)
    return (*row, digest(identity_of(job)), job.on_parent_failure, job.label)


def digest(identity: Identity | None) -> bytes | None:
    """An identity in a fixed length: its four names are too long for an index."""
    return None if identity is None else sha256(_encode_json(identity)).digest()


async def run_plan(session: Session, plan: Plan[Answer]) -> Committed[Answer]:
    """Run a plan of the kernel and write what it decides."""
    async with session.transaction():
        return await Unit(session).run(plan)


async def insert(
    session: Session, jobs: Sequence[Job], rows: Sequence[Row], now: datetime, *, is_native: bool
) -> Committed[list[Inserted]]:
    """Insert jobs. The native path is for new jobs without dependencies; others take the kernel.

    ``rows`` are the jobs as of the call: the caller may change a payload later.
    """
    if is_native and not any(job.dependencies for job in jobs):
        try:
            async with session.transaction():
                await session.write(QUERIES.insert_jobs, rows)
        except errors.IntegrityError as error:
            if code_of(error) != DUPLICATE:
                raise
        else:
            ready = {(job.tenant, job.queue) for job in jobs}
            return Committed([Inserted(job) for job in jobs], ready)
    copies = [
        replace(job, payload=read_payload(row[:28])) for job, row in zip(jobs, rows, strict=True)
    ]
    return await run_plan(session, edits.insert(copies, now))


async def apply(
    session: Session, changes: Sequence[Change], now: datetime, *, is_native: bool
) -> Committed[list[Applied]]:
    """Apply changes. The native path completes plain jobs; the rest takes the kernel."""
    async with session.transaction():
        done = await _complete(session, find_plain(changes) if is_native else ())
        rest = [change for change in changes if change.job_id not in done]
        committed: Committed[list[Applied]] = Committed([], set())
        if rest:
            committed = await Unit(session).run(settlement.apply(rest, now))
    answers = merge_answers(changes, done, committed.answer)
    return Committed(answers, committed.ready, committed.ended | done)


async def _complete(session: Session, changes: Sequence[Change]) -> set[JobId]:
    """Complete each job that has no dependents, if its change still holds; which ones."""
    locked = {
        (job_id.decode(), tenant.decode(), token)
        for job_id, tenant, token in await session.fetch_of(
            QUERIES.lock_plain, [change.job_id for change in changes]
        )
    }
    held = [one for one in changes if (one.job_id, one.job.tenant, one.expected_token) in locked]
    if held:
        rows = [
            (
                *(one.job_id, to_micros(one.job.due_at)),
                None if one.job.completion is None else to_micros(one.job.completion.started_at),
                to_micros(one.job.updated_at),
            )
            for one in held
        ]
        await session.fetch(QUERIES.complete_jobs, rows=_encode_json(rows).decode())
        results = [(one.job_id, one.result) for one in held if one.result is not None]
        await session.write(QUERIES.keep_results, results)
        attempts = [one.attempt for one in held if one.attempt is not None]
        await session.write(QUERIES.add_attempts, map(_encode_attempt, attempts))
    return {one.job_id for one in held}


def _encode_attempt(attempt: Attempt) -> Row:
    return (*encode_attempt(attempt), attempt.traceback, attempt.log)


class Unit:
    """Answers the queries of a plan inside a transaction, and writes what it decides.

    Whatever a plan may write is locked when it is read. What does not exist yet cannot be locked:
    if another transaction creates it first, the server reports a duplicate, and a new plan runs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def run(self, plan: Plan[Answer]) -> Committed[Answer]:
        """Run the plan and write its decision."""
        decision = await run_async(plan, self._answer)
        await self._write(decision.writes)
        return Committed.of(*decision)

    async def _answer(self, query: Query) -> Any:
        fetch_of = self._session.fetch_of
        answer: Any
        match query:
            case ReadJobs(job_ids, skips_damaged):
                rows = await fetch_of(QUERIES.lock_jobs, job_ids)
                awaited = {row[0].decode() for row in rows if row[AWAITED_AT]}
                jobs = decode_readable(rows, skips_damaged=skips_damaged)
                answer = {job.id: Stored(job, job.id in awaited) for job in jobs}
            case ReadStatuses(job_ids):
                rows = await fetch_of(QUERIES.lock_statuses, job_ids)
                answer = {job_id.decode(): status.decode() for job_id, status in rows}
            case ReadTwins(identities):
                digests = [digest(each) for each in identities]
                rows = await self._session.fetch(QUERIES.lock_twins, identities=digests)
                answer = [decode(row) for row in rows]
            case ReadWaiting(parents, is_deep):
                answer = await self._read_waiting(parents, is_deep=is_deep)
            case ReadAncestors(job_ids):
                answer = await self._read_ancestors(job_ids)
            case ReadDependents(job_ids):
                answer = await self._read_links(QUERIES.find_children, job_ids)
            case ReadEnded():
                answer = await self._read_ended(query)
            case _:
                raise TypeError(f"unknown query: {query!r}")
        return answer

    async def _read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:
        """Level by level: who depends on a job is read once the job is locked."""
        found: dict[JobId, Waiting] = {}
        parents_of: defaultdict[JobId, list[JobId]] = defaultdict(list)
        level = set(parents)
        while level:
            links = await self._read_links(QUERIES.find_children, level)
            for parent, children in links.items():
                for child in children:
                    parents_of[child].append(parent)
            new = {child for children in links.values() for child in children} - found.keys()
            for row in await self._session.fetch_of(QUERIES.lock_waiting, new):
                job_id, tenant, queue, due_at, open_count, policy = map(read_text, row)
                due = to_instant(due_at)
                found[job_id] = Waiting(job_id, tenant, queue, due, open_count, (), policy)
            level = new & found.keys() if is_deep else set()
        return [one._replace(parents=tuple(parents_of[each])) for each, one in found.items()]

    async def _read_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, tuple[JobId, ...]]:
        await self._session.fetch(QUERIES.lock_row, name="dependencies")
        found: dict[JobId, tuple[JobId, ...]] = {}
        level = set(job_ids)
        while level:
            links = await self._read_links(QUERIES.find_parents, level)
            found |= {child: tuple(parents) for child, parents in links.items()}
            level = {parent for parents in links.values() for parent in parents} - found.keys()
        return found

    async def _read_ended(self, query: ReadEnded) -> list[Ended]:
        """Once they are locked, they gain no dependent: those that just did are left out."""
        rows = await self._session.fetch(
            QUERIES.find_ended,
            before=to_micros(query.before),
            after=to_micros(query.after.ended_at),
            after_id=query.after.job_id,
            limit=query.limit,
        )
        ids = [job_id.decode() for _, job_id in rows]
        locked: dict[bytes, bytes] = dict(await self._session.fetch_of(QUERIES.lock_statuses, ids))
        children = await self._read_links(QUERIES.find_children, ids)
        parents = await self._read_links(QUERIES.find_parents, ids)
        return [
            Ended(to_instant(ended_at), job_id, tuple(parents.get(job_id, ())))
            for (ended_at, key), job_id in zip(rows, ids, strict=True)
            if key in locked and job_id not in children
        ]

    async def _read_links(
        self, statement: str, job_ids: Collection[JobId]
    ) -> dict[JobId, list[JobId]]:
        links: defaultdict[JobId, list[JobId]] = defaultdict(list)
        for one, other in await self._session.fetch_of(statement, job_ids):
            links[one.decode()].append(other.decode())
        return dict(links)

    async def _write(self, writes: Writes) -> None:
        session, now = self._session, writes.now
        await session.write(
            QUERIES.insert_jobs, [_encode_new(new, now) for _, new in sorted(writes.new.items())]
        )
        changed = writes.moved | {job_id: one.job for job_id, one in writes.amended.items()}
        rows = [encode(job, now) for _, job in sorted(changed.items())]
        await session.write(QUERIES.update_jobs, rows)
        await self._link(writes)
        await self._place(writes)
        await session.write(QUERIES.add_attempts, map(_encode_attempt, writes.attempts))
        await session.write(QUERIES.keep_results, sorted(writes.results.items()))
        await session.fetch_of(QUERIES.remove_results, writes.without_results | writes.removed)
        await session.fetch_of(QUERIES.remove_attempts, writes.without_attempts | writes.removed)
        await session.fetch_of(QUERIES.remove_dependencies, writes.removed)
        await session.fetch_of(QUERIES.remove_jobs, writes.removed)

    async def _link(self, writes: Writes) -> None:
        """Write what new and amended jobs depend on, and for how many they wait."""
        relinked = [one for one in writes.amended.values() if one.open_count is not None]
        ids = [one.job.id for one in relinked]
        await self._session.fetch_of(QUERIES.remove_dependencies, ids)
        linked = [one.job for one in writes.new.values()] + [one.job for one in relinked]
        links = sorted((parent, job.id) for job in linked for parent in job.dependencies)
        await self._session.write(QUERIES.add_dependencies, links)
        for one in relinked:
            await self._session.fetch_of(
                QUERIES.count_open, [one.job.id], open_count=one.open_count
            )
        await self._session.fetch_of(QUERIES.mark_awaited, writes.awaited)

    async def _place(self, writes: Writes) -> None:
        """Write PENDING jobs that wait for less, or for nothing more; equal ones together."""
        groups: defaultdict[tuple[Any, ...], list[JobId]] = defaultdict(list)
        for job_id, one in writes.placed.items():
            groups[one.status, one.open_count, one.ending, one.error].append(job_id)
        for (status, open_count, ending, error), ids in groups.items():
            if status is JobStatus.PENDING:
                await self._session.fetch_of(QUERIES.count_open, ids, open_count=open_count)
                continue
            await self._session.fetch_of(
                QUERIES.place_jobs,
                ids,
                status=status,
                open_count=open_count,
                ending=ending,
                error=error,
                now=to_micros(writes.now),
            )


def _encode_new(new: NewJob, now: datetime) -> Row:
    row = encode(new.job, now, new.open_count, is_awaited=new.is_awaited)
    if new.unreadable is None:
        return row
    return (*encode_unreadable(row[:28], UNREADABLE_COPY, seal(new.unreadable)), *row[28:])


async def load(session: Session, records: Sequence[Record], now: datetime) -> int:
    """Store the records that are new, in one transaction; how many that were."""
    documents = {each[:2]: each for each in reversed(records) if isinstance(each, KeptDocument)}
    async with session.transaction():
        found: set[tuple[str, str]] = set()
        for collection in sorted({each for each, _ in documents}):
            keys = [key for each, key in documents if each == collection]
            rows = await session.fetch_of(QUERIES.lock_documents, keys, collection=collection)
            found |= {(collection, key.decode()) for key, _ in rows}
        new = [each for name, each in sorted(documents.items()) if name not in found]
        await session.write(QUERIES.create_documents, new)
        return len(new) + (await Unit(session).run(load_jobs(records, now))).answer
