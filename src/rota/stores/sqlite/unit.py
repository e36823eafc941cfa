"""The kernel's queries, and the commit of its writes, in a transaction of the writer."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

import apsw

from rota.jobs import Attempt, Change, Job, JobId, JobStatus
from rota.stores.kernel.identity import Identity
from rota.stores.kernel.unit import Committed, Plan, Writes
from rota.stores.protocol import Applied, Inserted
from rota.stores.rows import (
    Row,
    encode_amendment,
    encode_attempt,
    encode_job,
    encode_move,
    encode_reports,
    to_micros,
)
from rota.stores.sql import unit
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.session import Session, finish

Answer = TypeVar("Answer")

MOST_NARROW = 50
"""A job with more dependencies than this has the count of the open ones apart from its row."""


def commit_plan(connection: apsw.Connection, plan: Plan[Answer]) -> Committed[Answer]:
    """Run a plan of the kernel and write what it decides."""
    return finish(Unit(Session(connection)).run(plan))


def insert_jobs(
    connection: apsw.Connection,
    jobs: Sequence[Job],
    rows: Sequence[Row],
    now: datetime,
    *,
    is_native: bool,
) -> Committed[list[Inserted]]:
    """Insert jobs; see ``sql.unit``."""
    return finish(Unit(Session(connection)).insert(jobs, rows, now, is_native=is_native))


def _insert_new(connection: apsw.Connection, rows: Sequence[Row]) -> bool:
    """Insert all rows, or none if one of them clashes."""
    if len(rows) == 1:  # nothing to undo
        connection.execute(QUERIES.insert_job, rows[0])
        return connection.changes() == 1
    try:
        with connection:  # a savepoint
            _insert_all(connection, rows)
    except _ClashError:
        return False
    return True


def _insert_all(connection: apsw.Connection, rows: Sequence[Row]) -> None:
    before = connection.total_changes()
    connection.executemany(QUERIES.insert_job, rows)
    if connection.total_changes() - before < len(rows):
        raise _ClashError


class _ClashError(Exception):
    """One of the new jobs exists already."""


def apply_changes(
    connection: apsw.Connection, changes: Sequence[Change], now: datetime, *, is_native: bool
) -> Committed[list[Applied]]:
    """Apply changes; see ``sql.unit``."""
    return finish(Unit(Session(connection)).apply(changes, now, is_native=is_native))


def _complete_plain(
    connection: apsw.Connection, changes: Sequence[Change], now: datetime
) -> set[JobId]:
    """Complete each job that has no dependents, if its change still holds; which ones."""
    completed: set[JobId] = set()
    now_micros = to_micros(now)

    def encode_each() -> Iterable[Row]:
        for change in changes:
            job = change.job
            ended_at = now_micros if job.updated_at is now else to_micros(job.updated_at)
            started_at = None if job.completion is None else to_micros(job.completion.started_at)
            expected = change.expected_token
            yield to_micros(job.due_at), ended_at, job.id, job.tenant, expected, started_at
            if connection.changes():  # asked for the next row, SQLite has written this one
                completed.add(job.id)

    connection.executemany(QUERIES.complete_job, encode_each())
    _keep_reports(connection, [each for each in changes if each.job_id in completed])
    return completed


def _keep_reports(connection: apsw.Connection, changes: Sequence[Change]) -> None:
    results = [(each.job_id, each.result) for each in changes if each.result is not None]
    if results:
        connection.executemany(QUERIES.keep_result, results)
    attempts = [each.attempt for each in changes if each.attempt is not None]
    if attempts:
        connection.executemany(QUERIES.add_attempt, map(encode_attempt, attempts))
        connection.executemany(QUERIES.add_report, encode_reports(attempts))


class Unit(unit.Unit[Session]):
    """A unit of work in a transaction of the writer, which has the only write lock."""

    async def _find_twins(self, identities: Collection[Identity]) -> list[Row]:
        fetch = self._session.fetch
        return [
            row for one in identities for row in await fetch(QUERIES.find_twin, **one._asdict())
        ]

    async def _find_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Row]:
        statement = QUERIES.find_waiting_deep if is_deep else QUERIES.find_waiting
        return list(await self._session.fetch(statement, ids=list(parents)))

    async def _find_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        return await self._read_links(QUERIES.find_ancestors, job_ids)

    async def _lock_ended(self, job_ids: Sequence[JobId]) -> Sequence[JobId]:
        return job_ids

    encode_job = staticmethod(encode_job)

    async def _insert_new(self, rows: Sequence[Row]) -> bool:
        return _insert_new(self._session.connection, rows)

    async def _complete(self, changes: Sequence[Change], now: datetime) -> set[JobId]:
        return _complete_plain(self._session.connection, changes, now)

    def _encode_move(self, job: Job, now: datetime) -> Row:
        return encode_move(job, now)

    def _encode_amendment(self, job: Job, now: datetime) -> Row:
        return encode_amendment(job, now)

    async def _add_attempts(self, attempts: Sequence[Attempt]) -> None:
        await self._session.write(QUERIES.add_attempt, map(encode_attempt, attempts))
        await self._session.write(QUERIES.add_report, encode_reports(attempts))

    async def _write(self, writes: Writes) -> None:
        await self._count_apart(writes)
        await super()._write(writes)
        without = writes.without_attempts | writes.removed
        await self._session.change(QUERIES.remove_reports, without)

    async def _count_apart(self, writes: Writes) -> None:
        """Write the counts of open dependencies that are not in the row of their job.

        The row has the count, unless it would be too large or has no place for the policy.
        """
        session, placed, amended = self._session, writes.placed.items(), writes.amended.values()
        recounted = [(one.job, one.open_count) for one in amended if one.open_count is not None]
        gone = {job.id for job in writes.moved.values() if job.status is JobStatus.BLOCKED}
        gone |= {each for each, one in placed if one.status is not JobStatus.PENDING}
        gone |= {job.id for job, _ in recounted} | writes.removed
        await session.change(QUERIES.forget_open, gone)
        counted = [*((one.job, one.open_count) for one in writes.new.values()), *recounted]
        apart = [_encode_open(job, count) for job, count in counted if _is_apart(job)]
        await session.write(QUERIES.keep_open, apart)
        jobs = [one.job for one in amended]
        queued = [(job.id, job.queue, to_micros(job.due_at)) for job in jobs]
        await session.write(QUERIES.amend_open, queued)
        pending = [(each, one) for each, one in placed if one.status is JobStatus.PENDING]
        await session.write(QUERIES.lower_open, [(each, one.open_count) for each, one in pending])


def _encode_open(job: Job, count: int) -> Row:
    due_at = to_micros(job.due_at)
    return job.id, job.tenant, job.queue, due_at, count, job.on_parent_failure


def _is_apart(job: Job) -> bool:
    is_usual = job.on_parent_failure == "block" and len(job.dependencies) <= MOST_NARROW
    return job.status is JobStatus.PENDING and not is_usual
