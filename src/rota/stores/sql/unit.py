"""The kernel's queries, and the commit of its writes, in one transaction of any dialect."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from rota.jobs import Attempt, Change, Job, JobId, JobStatus
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.identity import Identity
from rota.stores.kernel.settlement import find_plain, merge_answers
from rota.stores.kernel.unit import (
    Committed,
    Ended,
    NewJob,
    Partition,
    Plan,
    Stored,
    Waiting,
    Writes,
    answer_by,
    run_async,
)
from rota.stores.protocol import Applied, EndedPlace, Inserted
from rota.stores.rows import (
    COLUMNS,
    Row,
    decode_readable,
    encode_unreadable,
    read_payload,
    to_instant,
    to_micros,
)
from rota.stores.sql.session import SessionT

Answer = TypeVar("Answer")

_AWAITED_AT = len(COLUMNS)


class Unit(ABC, Generic[SessionT]):
    """Answers the queries of a plan inside a transaction, and writes what it decides.

    Whatever a plan may write is locked when it is read. What does not exist yet cannot be locked:
    if another transaction creates it first, the database reports it, and a new plan runs.
    """

    def __init__(self, session: SessionT) -> None:
        self._session = session
        self._queries = session.queries

    @abstractmethod
    async def _insert_new(self, rows: Sequence[Row]) -> bool:
        """Insert these jobs; none of them, and False, if one exists already."""

    @abstractmethod
    async def _complete(self, changes: Sequence[Change], now: datetime) -> set[JobId]:
        """Complete each job that has no dependents, if its change still holds; which ones."""

    @abstractmethod
    async def _find_twins(self, identities: Collection[Identity]) -> Sequence[Row]:
        """The jobs with these identities."""

    @abstractmethod
    async def _find_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> Sequence[Row]:
        """See ``ReadWaiting``: id, tenant, queue, due instant, open count, parent and policy.

        A job comes once for each of its parents.
        """

    @abstractmethod
    async def _find_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        """See ``ReadAncestors``."""

    @abstractmethod
    async def _lock_ended(self, job_ids: Sequence[JobId]) -> Collection[JobId]:
        """Lock these jobs; those that still have no dependents."""

    @staticmethod
    @abstractmethod
    def encode_job(
        job: Job, now: datetime, open_count: int = 0, *, is_awaited: bool = False
    ) -> Row:
        """The values of ``insert_job``."""

    @abstractmethod
    def _encode_move(self, job: Job, now: datetime) -> Row:
        """The values of ``move_job``."""

    @abstractmethod
    def _encode_amendment(self, job: Job, now: datetime) -> Row:
        """The values of ``amend_job``."""

    @abstractmethod
    async def _add_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Write these attempts, and what workers reported about them."""

    async def insert(
        self, jobs: Sequence[Job], rows: Sequence[Row], now: datetime, *, is_native: bool
    ) -> Committed[list[Inserted]]:
        """Insert jobs. The native path is for new jobs without dependencies.

        ``rows`` are the jobs as of the call: the caller may change a payload later.
        """
        if is_native and not any(job.dependencies for job in jobs) and await self._insert_new(rows):
            ready = {(job.tenant, job.queue) for job in jobs}
            return Committed([Inserted(job) for job in jobs], ready)
        pairs = zip(jobs, rows, strict=True)
        copies = [replace(job, payload=read_payload(row)) for job, row in pairs]
        return await self.run(edits.insert(copies, now))

    async def apply(
        self, changes: Sequence[Change], now: datetime, *, is_native: bool
    ) -> Committed[list[Applied]]:
        """Apply changes. The native path completes plain jobs; the rest takes the kernel."""
        async with self._session.transaction():
            plain = find_plain(changes) if is_native else []
            done = await self._complete(plain, now) if plain else set()
            rest = [change for change in changes if change.job_id not in done]
            answers: list[Applied] = []
            ready, ended = set[Partition](), set[JobId]()
            if rest:
                answers, ready, ended = await self._run(settlement.apply(rest, now))
        return Committed(merge_answers(changes, done, answers), ready, ended | done)

    async def run(self, plan: Plan[Answer]) -> Committed[Answer]:
        """Run a plan in a transaction and write its decision."""
        async with self._session.transaction():
            return await self._run(plan)

    async def _run(self, plan: Plan[Answer]) -> Committed[Answer]:
        decision = await run_async(plan, answer_by(self))
        await self._write(decision.writes)
        return Committed.of(*decision)

    async def read_jobs(
        self, job_ids: Collection[JobId], *, skips_damaged: bool
    ) -> dict[JobId, Stored]:
        """See ``ReadJobs``."""
        rows = list(await self._session.fetch(self._queries.lock_jobs, ids=sorted(job_ids)))
        awaited = {row[0] for row in rows if row[_AWAITED_AT]}
        jobs = decode_readable(rows, self._session.decode, skips_damaged=skips_damaged)
        return {job.id: Stored(job, job.id in awaited) for job in jobs}

    async def read_statuses(self, job_ids: Collection[JobId]) -> dict[JobId, str]:
        """See ``ReadStatuses``."""
        return dict(await self._session.fetch(self._queries.lock_statuses, ids=sorted(job_ids)))

    async def read_twins(self, identities: Collection[Identity]) -> list[Job]:
        """See ``ReadTwins``."""
        return [self._session.decode(row) for row in await self._find_twins(identities)]

    async def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:
        """See ``ReadWaiting``."""
        return _waiting_in(await self._find_waiting(parents, is_deep=is_deep))

    async def read_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, tuple[JobId, ...]]:
        """See ``ReadAncestors``."""
        links = await self._find_ancestors(job_ids)
        return {child: tuple(parents) for child, parents in links.items()}

    async def read_dependents(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        """See ``ReadDependents``."""
        return await self._read_links(self._queries.find_children, job_ids)

    def _encode_new(self, new: NewJob, now: datetime) -> Row:
        row = self.encode_job(new.job, now, new.open_count, is_awaited=new.is_awaited)
        return row if new.unreadable is None else encode_unreadable(row, new.unreadable)

    async def _read_links(
        self, statement: str, job_ids: Collection[JobId]
    ) -> dict[JobId, list[JobId]]:
        links: defaultdict[JobId, list[JobId]] = defaultdict(list)
        for one, other in await self._session.fetch(statement, ids=sorted(job_ids)):
            links[one].append(other)
        return dict(links)

    async def read_ended(self, before: datetime, limit: int, after: EndedPlace) -> list[Ended]:
        """See ``ReadEnded``."""
        rows = list(
            await self._session.fetch(
                self._queries.find_ended,
                before=to_micros(before),
                limit=limit,
                after=to_micros(after.ended_at),
                after_id=after.job_id,
            )
        )
        if not rows:
            return []
        free = await self._lock_ended([job_id for _, job_id in rows])
        parents = await self._read_links(self._queries.find_parents, free)
        return [
            Ended(to_instant(ended_at), job_id, tuple(parents.get(job_id, ())))
            for ended_at, job_id in rows
            if job_id in free
        ]

    async def _write(self, writes: Writes) -> None:
        session, queries, now = self._session, self._queries, writes.now
        new = [self._encode_new(one, now) for _, one in sorted(writes.new.items())]
        await session.write(queries.insert_job, new)
        moved = [self._encode_move(job, now) for _, job in sorted(writes.moved.items())]
        await session.write(queries.move_job, moved)
        amended = [self._encode_amendment(one.job, now) for one in writes.amended.values()]
        await session.write(queries.amend_job, amended)
        await self._link(writes)
        await self._place(writes)
        await self._add_attempts(writes.attempts)
        await session.write(queries.keep_result, sorted(writes.results.items()))
        await session.change(queries.remove_result, writes.without_results | writes.removed)
        await session.change(queries.remove_attempts, writes.without_attempts | writes.removed)
        await session.change(queries.remove_dependencies, writes.removed)
        await session.change(queries.remove_job, writes.removed)

    async def _link(self, writes: Writes) -> None:
        """Write what new and amended jobs depend on, and for how many they wait."""
        session, queries = self._session, self._queries
        relinked = [one for one in writes.amended.values() if one.open_count is not None]
        await session.change(queries.remove_dependencies, [one.job.id for one in relinked])
        linked = [one.job for one in writes.new.values()] + [one.job for one in relinked]
        links = sorted((parent, job.id) for job in linked for parent in job.dependencies)
        await session.write(queries.add_dependency, links)
        await session.change(queries.mark_awaited, writes.awaited)
        for one in relinked:
            await session.change(queries.count_open, [one.job.id], open_count=one.open_count)

    async def _place(self, writes: Writes) -> None:
        """Write PENDING jobs that wait for less, or for nothing more; equal ones together."""
        session, queries, now = self._session, self._queries, to_micros(writes.now)
        lowered: defaultdict[int, list[JobId]] = defaultdict(list)
        placed: defaultdict[tuple[Any, ...], list[JobId]] = defaultdict(list)
        for job_id, one in writes.placed.items():
            if one.status is JobStatus.PENDING:
                lowered[one.open_count].append(job_id)
            else:
                placed[one.status, one.ending, one.error].append(job_id)
        for open_count, ids in lowered.items():
            await session.change(queries.count_open, ids, open_count=open_count)
        for (status, ending, error), ids in placed.items():
            place = {"status": status, "now": now, "ending": ending, "error": error}
            await session.change(queries.place_job, ids, **place)


def _waiting_in(rows: Sequence[Row]) -> list[Waiting]:
    found: dict[JobId, Waiting] = {}
    parents: defaultdict[JobId, list[JobId]] = defaultdict(list)
    for job_id, tenant, queue, due_at, open_count, parent, policy in rows:
        if job_id not in found:
            due = to_instant(due_at)
            found[job_id] = Waiting(job_id, tenant, queue, due, open_count, (), policy)
        parents[job_id].append(parent)
    return [one._replace(parents=tuple(parents[job_id])) for job_id, one in found.items()]
