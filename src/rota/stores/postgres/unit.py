"""Units of work: the kernel's plans in transactions, and the two native paths beside them.

A unit locks the jobs that its plan reads, in the order of their ids. Dependents are locked after
the jobs they wait for.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import asyncpg

from rota.errors import DamagedJobError, StoreUnavailableError
from rota.jobs import Attempt, Change, Job, JobId, JobStatus, OnParentFailure
from rota.stores.kernel import settlement
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.records import UNREADABLE_COPY, seal
from rota.stores.kernel.settlement import find_plain, merge_answers
from rota.stores.kernel.unit import (
    Amended,
    Committed,
    Decision,
    Ended,
    NewJob,
    Plan,
    Stored,
    Waiting,
    Writes,
    answer_by,
    run_async,
)
from rota.stores.postgres.connections import TRY_COUNT, Statements
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.rows import (
    Damage,
    decode_jobs,
    digest_identity,
    encode_all_fresh,
    encode_attempt,
    encode_body,
    encode_fresh,
    encode_jobs,
    encode_moves,
    in_calendar,
    known_ids,
    once_if_same,
)
from rota.stores.postgres.wakeups import channel_of, write_ends
from rota.stores.protocol import Applied, EndedPlace

Answer = TypeVar("Answer")
Result = TypeVar("Result")

MOST_AT_ONCE = 2_000
MOST_BYTES_AT_ONCE = 8 * 1024 * 1024
"""Within these bounds a statement ends well before its deadline, and its message fits."""

MOST_COUNTED = 50
"""Dependencies of one job that are counted when one of them ends, rather than stored."""


class ContendedError(Exception):
    """Another transaction has written one of the jobs since this one read it."""


async def run_unit(
    statements: Statements, work: Callable[["UnitOfWork"], Awaitable[Result]]
) -> Result:
    """Do ``work`` in a transaction, again while it is contended."""
    for _ in range(TRY_COUNT):
        try:
            async with statements.transaction():
                return await work(UnitOfWork(statements))
        except ContendedError:
            continue
    raise StoreUnavailableError(
        "Others keep on writing the same jobs; nothing was written",
        {"reason": "others were writing the same jobs", "outcome": "nothing was written"},
    )


async def run_plan(
    statements: Statements, make_plan: Callable[[], Plan[Answer]]
) -> Decision[Answer]:
    """Run a plan as a unit of work; a fresh one each time it is contended."""
    return await run_unit(statements, lambda unit: unit.run(make_plan()))


class UnitOfWork:
    """Answers the queries of a plan inside a transaction, and writes what it decides."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._damaged: list[Damage] = []
        self._watched: set[JobId] = set()
        self._counted: set[JobId] = set()
        """Jobs whose number of open dependencies is stored."""

    async def run(self, plan: Plan[Answer]) -> Decision[Answer]:
        """Run the plan and write its decision; unreadable jobs that it skipped are set aside."""
        decision = await run_async(plan, answer_by(self))
        await self._write(decision.writes)
        await set_aside(self._statements, self._damaged)
        if self._watched and (ended := decision.writes.ended_jobs() & self._watched):
            notice = (channel_of(self._statements.schema), write_ends(ended))
            await self._statements.fetch(QUERIES.notify_at_commit, *notice)
        return decision

    async def read_jobs(
        self, job_ids: Collection[JobId], *, skips_damaged: bool
    ) -> dict[JobId, Stored]:
        rows = await self._fetch_some(QUERIES.lock_jobs, known_ids(job_ids))
        decoded = decode_jobs(rows)
        if decoded.damaged and not skips_damaged:
            raise DamagedJobError(*decoded.damaged[0])
        self._damaged += decoded.damaged
        self._watched |= decoded.watched
        return decoded.stored

    async def read_statuses(self, job_ids: Collection[JobId]) -> dict[JobId, str]:
        return {row[0]: row[4] for row in await self._fetch_some(QUERIES.lock_jobs, job_ids)}

    async def read_twins(self, identities: Collection[Identity]) -> list[Job]:
        digests = [digest_identity(each) for each in identities]
        return decode_jobs(await self._statements.fetch(QUERIES.find_twins, digests)).jobs

    async def read_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        await self._statements.fetch(QUERIES.lock_dependencies)
        return await self._read_links(QUERIES.find_ancestors, job_ids)

    async def read_dependents(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        return await self._read_links(QUERIES.find_children, job_ids)

    async def read_ended(self, before: datetime, limit: int, after: EndedPlace) -> list[Ended]:
        rows = await self._statements.fetch(QUERIES.find_ended, before, limit, *after)
        return [Ended(in_calendar(at), job_id, tuple(ids)) for at, job_id, ids in rows]

    async def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:
        """Lock the waiting jobs, and read what they wait for once they are locked.

        A deep search is repeated until it finds no more jobs: while this transaction waited for
        the lock of one, another may have added a dependent to it.
        """
        locked: dict[JobId, Any] = {}
        links: list[Any] = []
        is_complete = False
        while not is_complete:
            links = await self._statements.fetch(QUERIES.find_waiting, sorted(parents), is_deep)
            new = {child for _, child in links} - locked.keys()
            locked |= dict.fromkeys(new)
            for row in await self._fetch_some(QUERIES.lock_waiting, new):
                locked[row[0]] = row
            is_complete = not is_deep or not new
        found: dict[JobId, Any] = {each: row for each, row in locked.items() if row is not None}
        self._watched |= {job_id for job_id, row in found.items() if row[-1]}
        parents_of = defaultdict(list)
        for parent, child in links:
            parents_of[child].append(parent)
        counts = await self._read_open(found)
        return [
            Waiting(
                *(job_id, tenant, queue, in_calendar(due_at)),
                *(counts[job_id][0], tuple(parents_of[job_id]), counts[job_id][1]),
            )
            for job_id, tenant, queue, due_at, _ in found.values()
        ]

    async def _read_open(
        self, job_ids: Collection[JobId]
    ) -> dict[JobId, tuple[int, OnParentFailure]]:
        """How many dependencies each job waits for, and what it does when one fails."""
        counts: dict[JobId, tuple[int, OnParentFailure]] = {
            job_id: (open_count, policy)
            for job_id, open_count, policy in await self._fetch_some(QUERIES.read_open, job_ids)
        }
        self._counted |= counts.keys()
        others = [each for each in job_ids if each not in counts]
        open_counts = dict(await self._fetch_some(QUERIES.count_open, others))
        return counts | {each: (open_counts.get(each, 0), "block") for each in others}

    async def _read_links(
        self, statement: str, job_ids: Collection[JobId]
    ) -> dict[JobId, list[JobId]]:
        links: defaultdict[JobId, list[JobId]] = defaultdict(list)
        for one, other in await self._fetch_some(statement, known_ids(job_ids)):
            links[one].append(other)
        return dict(links)

    async def _fetch_some(self, statement: str, job_ids: Iterable[JobId]) -> list[Any]:
        ids = sorted(job_ids)
        return await self._statements.fetch(statement, ids) if ids else []

    async def _write(self, writes: Writes) -> None:
        await self._create(list(writes.new.values()), writes.now)
        await self._fetch_some(QUERIES.mark_awaited, writes.awaited)
        await self._move(writes)
        for one in writes.amended.values():
            await self._amend(one, writes.now)
        await self._count_open(writes)
        await add_attempts(self._statements, writes.attempts)
        if writes.results:
            columns = columns_of(sorted(writes.results.items()))
            await self._statements.fetch(QUERIES.keep_results, *columns)
        await self._fetch_some(QUERIES.remove_results, writes.without_results)
        await self._fetch_some(QUERIES.remove_attempts, writes.without_attempts)
        if writes.removed:
            await self._remove(writes.removed)

    async def _create(self, new: Sequence[NewJob], now: datetime) -> None:
        await _store(self._statements, new, now)
        links = [(parent, one.job.id) for one in new for parent in one.job.dependencies]
        for start in range(0, len(links), MOST_AT_ONCE):
            columns = columns_of(links[start : start + MOST_AT_ONCE])
            await self._statements.fetch(QUERIES.add_dependencies, *columns)
        unreadable = [one.job.id for one in new if one.unreadable is not None]
        await set_aside(self._statements, [Damage(each, UNREADABLE_COPY) for each in unreadable])

    async def _move(self, writes: Writes) -> None:
        moved = [job for _, job in sorted(writes.moved.items())]
        for start in range(0, len(moved), MOST_AT_ONCE):
            columns = encode_moves(moved[start : start + MOST_AT_ONCE])
            await self._statements.fetch(QUERIES.move_jobs, writes.now, *columns)
        placed = [
            (job_id, one.status, one.ending, one.error)
            for job_id, one in sorted(writes.placed.items())
            if one.status is not JobStatus.PENDING
        ]
        if placed:
            await self._statements.fetch(QUERIES.place_jobs, writes.now, *columns_of(placed))
        blocked = [job.id for job in moved if job.status is JobStatus.BLOCKED]
        await self._fetch_some(QUERIES.remove_open, blocked)

    async def _amend(self, amended: Amended, now: datetime) -> None:
        job = amended.job
        identity = digest_identity(identity_of(job))
        place = (job.queue, job.priority, job.status, job.due_at)
        columns = (*place, job.updated_at, identity, encode_body(job))
        await self._statements.fetch(QUERIES.amend_job, now, job.id, *columns)
        if job.dependencies != amended.before.dependencies:
            former = await self._remove_links([job.id])
            parents = list(job.dependencies)
            children = [job.id] * len(parents)
            await self._statements.fetch(QUERIES.add_dependencies, parents, children)
            await self._unmark(former)
            if not _is_counted(job):
                await self._fetch_some(QUERIES.remove_open, [job.id])

    async def _count_open(self, writes: Writes) -> None:
        """Write how many dependencies PENDING jobs wait for, where that is stored."""
        linked = [(one.job, one.open_count) for one in writes.new.values()]
        linked += [
            (one.job, one.open_count)
            for one in writes.amended.values()
            if one.open_count is not None
        ]
        counts = [
            (job.id, open_count, job.on_parent_failure)
            for job, open_count in linked
            if _is_counted(job)
        ]
        counts += [
            (job_id, one.open_count, one.waiting.on_parent_failure)
            for job_id, one in writes.placed.items()
            if one.status is JobStatus.PENDING and job_id in self._counted
        ]
        if counts:
            await self._statements.fetch(QUERIES.set_open, *columns_of(sorted(counts)))

    async def _remove(self, job_ids: Collection[JobId]) -> None:
        former = await self._remove_links(job_ids)
        await self._unmark(former - set(job_ids))
        await self._fetch_some(QUERIES.remove_jobs, job_ids)

    async def _remove_links(self, children: Collection[JobId]) -> set[JobId]:
        return {row[0] for row in await self._fetch_some(QUERIES.remove_dependencies, children)}

    async def _unmark(self, former: Collection[JobId]) -> None:
        """They have lost a dependent. Locked first, so that a new dependent is seen."""
        await self._fetch_some(QUERIES.lock_jobs, former)
        await self._fetch_some(QUERIES.unmark_awaited, former)


def _is_counted(job: Job) -> bool:
    """Whether the number of its open dependencies is stored.

    Others are counted each time: programs that do not know the stored number can end them too.
    """
    is_special = job.on_parent_failure != "block" or len(job.dependencies) > MOST_COUNTED
    return is_special and job.status is JobStatus.PENDING


def columns_of(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """The rows, of which there is at least one, as columns."""
    return [list(column) for column in zip(*rows, strict=True)]


async def add_attempts(statements: Statements, attempts: Sequence[Attempt]) -> None:
    """Store the attempts."""
    if attempts:
        rows = [(attempt.job_id, encode_attempt(attempt)) for attempt in attempts]
        await statements.fetch(QUERIES.add_attempts, *columns_of(rows))


async def set_aside(statements: Statements, damaged: Iterable[Damage]) -> None:
    """Hide unreadable jobs from all verbs; their bytes stay as they are."""
    if ordered := sorted(damaged):
        await statements.fetch(QUERIES.set_aside, *columns_of(ordered))


Notice: TypeAlias = tuple[str, str] | None
"""A channel and a message, if other processes are notified in the same commit."""


async def insert_new(
    statements: Statements, jobs: Sequence[Job], now: datetime, notice: Notice = None
) -> bool:
    """Native path: store jobs that have only just been made, if all are new; otherwise none.

    One job is one statement, which also notifies. So are several jobs without keys that do not
    recur: these are unlikely to exist, and an expected failure would be an error in the server's
    log.
    """
    if len(jobs) == 1:
        values = (now, *encode_fresh(jobs[0]), *(notice or (None, None)))
        return bool(await statements.fetch(QUERIES.insert_one, *values))
    is_plain = not any([job.idempotency_key or job.recurrence for job in jobs])  # noqa: C419 - made faster
    bodies = [encode_body(job) for job in jobs] if is_plain and not statements.is_callers else []
    try:
        if 0 < len(bodies) <= MOST_AT_ONCE and sum(map(len, bodies)) <= MOST_BYTES_AT_ONCE:
            columns = encode_all_fresh(jobs, bodies)
            await statements.fetch(QUERIES.insert_jobs, now, *columns)
        else:
            async with statements.transaction():
                await _store(statements, [NewJob(job) for job in jobs], now)
    except (ContendedError, asyncpg.UniqueViolationError):
        return False
    return True


async def _store(statements: Statements, new: Sequence[NewJob], now: datetime) -> None:
    """Store the jobs; ContendedError if one exists already.

    Callers that store the same keys do so in the same order: otherwise they could wait for each
    other until the server ends one of them.
    """
    for batch, bodies in _batches(sorted(new, key=_key_of)):
        awaited = {one.job.id for one in batch if one.is_awaited}
        columns = encode_jobs([one.job for one in batch], bodies, awaited)
        if len(await statements.fetch(QUERIES.insert_missing, now, *columns)) < len(batch):
            raise ContendedError


def _key_of(new: NewJob) -> tuple[str, str]:
    return new.job.tenant, new.job.idempotency_key or ""


def _batches(new: Sequence[NewJob]) -> Iterator[tuple[Sequence[NewJob], Sequence[str]]]:
    """As many jobs at a time as one statement should hold, at least one, with their bodies."""
    start = byte_count = 0
    bodies: list[str] = []
    for end, one in enumerate(new):
        sealed = None if one.unreadable is None else seal(one.unreadable).decode()
        body = sealed or encode_body(one.job)
        is_full = len(bodies) >= MOST_AT_ONCE or byte_count + len(body) > MOST_BYTES_AT_ONCE
        if bodies and is_full:
            yield new[start:end], bodies
            start, byte_count, bodies = end, 0, []
        bodies.append(body)
        byte_count += len(body)
    if bodies:
        yield new[start:], bodies


async def apply(
    statements: Statements, changes: Sequence[Change], now: datetime, *, is_native: bool
) -> Committed[list[Applied]]:
    """Write each change that still holds; a single plain completion is one statement."""
    plain = sorted(find_plain(changes), key=_job_id) if is_native else []
    is_one = len(changes) == len(plain) == 1 and changes[0].attempt is None
    if is_one and await _complete(statements, changes):
        return Committed([Applied(changes[0].job)], set())
    if not changes:
        return Committed([], set())

    async def work(unit: UnitOfWork) -> Committed[list[Applied]]:
        done = await _complete(statements, plain)
        if len(done) == len(changes):
            return Committed([Applied(change.job) for change in changes], set())
        rest = [change for change in changes if change.job_id not in done]
        decision = await unit.run(settlement.apply(rest, now))
        answers = merge_answers(changes, done, decision.answer)
        return Committed(answers, decision.writes.ready_partitions())

    return await run_unit(statements, work)


def _job_id(change: Change) -> JobId:
    return change.job_id


async def _complete(statements: Statements, changes: Sequence[Change]) -> set[JobId]:
    """Complete the jobs that are not awaited and whose changes are current; which ones.

    What a change writes of its job is the same as when it was leased, under the same token; only
    its due instant may have been amended since.
    """
    if not changes:
        return set()
    jobs = [change.job for change in changes]
    results = [change.result for change in changes]
    are_due_when_created = all([job.due_at == job.created_at for job in jobs])  # noqa: C419 - faster
    ((positions, _),) = await statements.fetch(
        QUERIES.complete_jobs,
        ",".join([job.id for job in jobs]),
        once_if_same([change.expected_token for change in changes]),
        once_if_same([job.tenant for job in jobs]),
        [] if are_due_when_created else once_if_same([job.due_at for job in jobs]),
        once_if_same([job.completion and job.completion.started_at for job in jobs]),
        once_if_same([job.updated_at for job in jobs]),
        [] if results.count(None) == len(results) else results,
        channel_of(statements.schema),
    )
    done = changes if positions is None else [changes[position - 1] for position in positions]
    await add_attempts(statements, [one.attempt for one in done if one.attempt is not None])
    return {one.job_id for one in done}
