"""``apply``: changes that still hold, and what they mean for others."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import apsw
from msgspec.structs import replace

from rota.jobs import Change, Job, JobId, JobStatus
from rota.stores.kernel.settlement import make_successor
from rota.stores.protocol import STALE, Applied
from rota.stores.sqlite.jobs.insertion import insert_successor, read_jobs
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import (
    Row,
    encode_attempt,
    encode_deferral,
    encode_lease,
    end_of,
    place_of,
    to_micros,
)

_COMPLETION = (JobStatus.RUNNING, JobStatus.COMPLETED)


class Settled(NamedTuple):
    """What became of the changes, and who has become READY by them."""

    answers: list[Applied]
    ready: list[Job]


class Fate(NamedTuple):
    """What the end of a job means for those that waited for it."""

    released: tuple[JobId, ...] = ()
    blocked: tuple[JobId, ...] = ()
    ready: Sequence[Job] = ()
    """One for each queue in which somebody was released; only its place counts."""


def apply_changes(connection: apsw.Connection, changes: Sequence[Change], now: datetime) -> Settled:
    """Write each change that still holds; see ``JobStore.apply``.

    Nearly always nobody depends on the job, and nothing but the job changes: one statement for
    each, handed to SQLite as one stream. Where that statement finds nothing to write, the job is
    awaited or the change is stale, and it is looked at again before the next one is written.
    """
    settled = Settled([], [])
    moment = _Moment(connection, now, to_micros(now))
    if all(_is_plain(change) for change in changes):
        connection.executemany(QUERIES.complete, _complete_each(moment, changes, settled))
    else:
        connection.executemany(QUERIES.move, _move_each(moment, changes, settled))
    return settled


def _complete_each(moment: "_Moment", changes: Sequence[Change], settled: Settled) -> Iterator[Row]:
    """The values of ``complete`` for each, and what became of the one before."""
    answers, count_written = settled.answers, moment.connection.changes
    for change in changes:
        job = change.job
        ended_at = moment.to_micros(job.updated_at)
        yield to_micros(job.due_at), ended_at, job.id, job.tenant, change.expected_token
        if count_written():
            answers.append(Applied(job))
        else:
            answers.append(moment.try_awaited(change, settled.ready))


def _move_each(moment: "_Moment", changes: Sequence[Change], settled: Settled) -> Iterator[Row]:
    """The values of ``move`` for each, and what became of the one before."""
    answers = settled.answers
    for change in changes:
        yield moment.encode(change, is_awaited=False)
        if moment.connection.changes() == 0:
            answers.append(moment.try_awaited(change, settled.ready))
        elif _is_plain(change):
            answers.append(Applied(change.job))
        else:
            answers.append(moment.follow_up(change, settled.ready, is_awaited=False))


class _Moment(NamedTuple):
    """Changes are written at one moment, in one transaction."""

    connection: apsw.Connection
    now: datetime
    now_micros: int

    def to_micros(self, instant: datetime) -> int:
        """The same as the function; of the moment itself it is known."""
        return self.now_micros if instant is self.now else to_micros(instant)

    def encode(self, change: Change, *, is_awaited: bool) -> Row:
        """The values of ``move``."""
        job = change.job
        updated_at = self.to_micros(job.updated_at)
        is_loss = change.attempt is not None and change.attempt.outcome == "lost"
        return (
            job.status,
            to_micros(job.due_at),
            place_of(job, self.now),
            job.attempt_count,
            job.loss_count,
            job.last_error,
            job.ending,
            *encode_lease(job.lease),
            job.last_token,
            encode_deferral(job.deferral),
            updated_at,
            end_of(job, updated_at),
            job.id,
            job.tenant,
            change.path[0],
            change.expected_token,
            is_awaited,
            self.now_micros if is_loss else None,
        )

    def try_awaited(self, change: Change, ready: list[Job]) -> Applied:
        """Write a change that was not written as long as nobody was to depend on the job."""
        self.connection.execute(QUERIES.move, self.encode(change, is_awaited=True))
        if self.connection.changes() == 0:
            return STALE
        return self.follow_up(change, ready, is_awaited=True)

    def follow_up(self, change: Change, ready: list[Job], *, is_awaited: bool) -> Applied:
        """What else goes with the change; ``ready`` grows by those who are READY now."""
        job = change.job
        if job.status is JobStatus.READY:
            ready.append(job)
        if change.attempt is not None:
            self.connection.execute(QUERIES.add_attempt, encode_attempt(change.attempt))
        successor = self._continue_series(change)
        if successor is not None:
            ready.append(successor)
        fate = settle_dependents(self.connection, job, self.now) if is_awaited else Fate()
        ready.extend(fate.ready)
        is_removed = change.is_removed and remove_job(self.connection, job.id)
        return Applied(job, successor, fate.released, fate.blocked, is_removed)

    def _continue_series(self, change: Change) -> Job | None:
        if change.successor is None:
            return None
        (kept,) = read_jobs(self.connection, [change.job_id])
        successor = make_successor(change, kept)
        if successor is None or not insert_successor(self.connection, successor, self.now):
            return None
        return successor


def _is_plain(change: Change) -> bool:
    """Whether the job succeeds, and nothing goes with that."""
    return (
        change.path == _COMPLETION
        and change.successor is None
        and change.attempt is None
        and not change.is_removed
    )


def settle_dependents(connection: apsw.Connection, ended: Job, now: datetime) -> Fate:
    """Release or block whoever waited for the job; nobody if it has not ended.

    What ``rota.jobs.decide_dependents`` decides, without reading those whom it concerns: each job
    that waits has a count of what it waits for, and a chain may be any length.
    """
    moment = (ended.id, to_micros(now))
    if ended.status is JobStatus.COMPLETED:
        connection.execute(QUERIES.lower_open_counts, moment[:1])
        released = sorted(connection.execute(QUERIES.release, moment))
        places = [replace(ended, queue=queue) for queue in {queue for _, queue in released}]
        return Fate(released=tuple(job_id for job_id, _ in released), ready=places)
    if ended.status.is_terminal:
        blocked = sorted(connection.execute(QUERIES.block, moment))
        return Fate(blocked=tuple(job_id for (job_id,) in blocked))
    return Fate()


def has_dependents(connection: apsw.Connection, job_id: JobId) -> bool:
    """Whether anyone depends on the job, even one that has ended."""
    return connection.execute(QUERIES.has_dependents, (job_id,)).fetchone() is not None


def remove_job(connection: apsw.Connection, job_id: JobId) -> bool:
    """Remove a job with its attempts, unless others depend on it."""
    if has_dependents(connection, job_id):
        return False
    drop_dependencies(connection, job_id)
    connection.execute(QUERIES.remove_attempts, (job_id,))
    connection.execute(QUERIES.remove, (job_id,))
    return True


def drop_dependencies(connection: apsw.Connection, job_id: JobId) -> list[JobId]:
    """Let the job depend on nobody any more; on whom it did."""
    dropped = list(connection.execute(QUERIES.remove_dependencies, (job_id,)))
    return [parent for (parent,) in dropped]
