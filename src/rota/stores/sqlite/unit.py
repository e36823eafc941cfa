"""The kernel's queries, and the commit of its writes, in a transaction of the writer."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

import apsw
from msgspec.structs import replace

from rota.jobs import Change, Job, JobId, JobStatus
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.placement import made_ready
from rota.stores.kernel.records import UNREADABLE_COPY, load_jobs, seal
from rota.stores.kernel.settlement import find_plain, merge_answers
from rota.stores.kernel.unit import (
    Amended,
    Committed,
    Ended,
    NewJob,
    Plan,
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
    run,
)
from rota.stores.protocol import Applied, Inserted, KeptDocument, Record
from rota.stores.rows import (
    Row,
    decode_job,
    decode_readable,
    encode_amendment,
    encode_attempt,
    encode_ids,
    encode_job,
    encode_move,
    encode_reports,
    encode_unreadable,
    read_payload,
    to_instant,
    to_micros,
)
from rota.stores.sqlite.queries import QUERIES

Answer = TypeVar("Answer")
Write: TypeAlias = Callable[[str, Sequence[Row]], None]

MOST_NARROW = 50
"""A job with more dependencies than this has the count of the open ones apart from its row."""


def commit_plan(connection: apsw.Connection, plan: Plan[Answer]) -> Committed[Answer]:
    """Run a plan of the kernel and write what it decides."""
    decision = run(plan, lambda query: _ANSWERS[type(query)](connection, query))
    _commit(connection, decision.writes)
    return Committed.of(*decision)


class Submitted(NamedTuple):
    """Jobs to insert, with their rows as of the call: the caller may change a payload later."""

    jobs: Sequence[Job]
    rows: Sequence[Row]
    now: datetime

    @classmethod
    def of(cls, jobs: Sequence[Job], now: datetime) -> "Submitted":
        """Without dependencies a job is READY, whatever it says."""
        ready = made_ready(jobs)
        return cls(ready, [encode_job(job, now) for job in ready], now)


def insert_jobs(
    connection: apsw.Connection, submitted: Submitted, *, is_native: bool
) -> Committed[list[Inserted]]:
    """Insert jobs. The native path is for new jobs without dependencies; others take the kernel."""
    jobs, rows, now = submitted
    if is_native and not any(job.dependencies for job in jobs) and _insert_new(connection, rows):
        ready = {(job.tenant, job.queue) for job in jobs}
        return Committed([Inserted(job) for job in jobs], ready)
    copies = [replace(job, payload=read_payload(row)) for job, row in zip(jobs, rows, strict=True)]
    return commit_plan(connection, edits.insert(copies, now))


def insert_at_once(
    connection: apsw.Connection, submitted: Submitted
) -> Committed[list[Inserted]] | None:
    """Insert one job without dependencies by one statement; None if it clashes."""
    (job,), (row,), _ = submitted
    connection.execute(QUERIES.insert_job, row)
    if connection.changes() != 1:
        return None
    return Committed([Inserted(job)], {(job.tenant, job.queue)})


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
    """Apply changes. The native path completes plain jobs; the rest takes the kernel."""
    completed = _complete_plain(connection, find_plain(changes) if is_native else (), now)
    if len(completed) == len(changes):
        return Committed([Applied(change.job) for change in changes], set(), completed)
    rest = [change for change in changes if change.job_id not in completed]
    others, ready, ended = commit_plan(connection, settlement.apply(rest, now))
    return Committed(merge_answers(changes, completed, others), ready, ended | completed)


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


def load(connection: apsw.Connection, records: Sequence[Record], now: datetime) -> int:
    """Store the records that are new, in one transaction; how many that were."""
    new_count = commit_plan(connection, load_jobs(records, now)).answer
    before = connection.total_changes()
    documents = [each for each in records if isinstance(each, KeptDocument)]
    connection.executemany(QUERIES.load_document, documents)
    return new_count + connection.total_changes() - before


def _read_jobs(connection: apsw.Connection, query: ReadJobs) -> dict[JobId, Stored]:
    rows = connection.execute(QUERIES.read_jobs, (encode_ids(query.job_ids),)).fetchall()
    awaited = {row[0] for row in rows if row[-1]}
    jobs = decode_readable(rows, skips_damaged=query.skips_damaged)
    return {job.id: Stored(job, job.id in awaited) for job in jobs}


def _read_statuses(connection: apsw.Connection, query: ReadStatuses) -> dict[JobId, str]:
    return dict(connection.execute(QUERIES.read_statuses, (encode_ids(query.job_ids),)))


def _read_twins(connection: apsw.Connection, query: ReadTwins) -> list[Job]:
    found = (connection.execute(QUERIES.find_twin, each).fetchone() for each in query.identities)
    return [decode_job(row) for row in found if row is not None]


def _read_waiting(connection: apsw.Connection, query: ReadWaiting) -> list[Waiting]:
    statement = QUERIES.find_waiting_deep if query.is_deep else QUERIES.find_waiting
    found: dict[JobId, Waiting] = {}
    parents: dict[JobId, list[JobId]] = {}
    for row in connection.execute(statement, (encode_ids(query.parents),)):
        job_id, tenant, queue, due_at, open_count, parent, policy = row
        if job_id not in found:
            due = to_instant(due_at)
            found[job_id] = Waiting(job_id, tenant, queue, due, open_count, (), policy)
        parents.setdefault(job_id, []).append(parent)
    return [one._replace(parents=tuple(parents[job_id])) for job_id, one in found.items()]


def _read_ancestors(
    connection: apsw.Connection, query: ReadAncestors
) -> dict[JobId, tuple[JobId, ...]]:
    edges = _group(connection.execute(QUERIES.find_ancestors, (encode_ids(query.job_ids),)))
    return {child: tuple(parents) for child, parents in edges.items()}


def _read_dependents(
    connection: apsw.Connection, query: ReadDependents
) -> dict[JobId, list[JobId]]:
    return _group(connection.execute(QUERIES.find_children, (encode_ids(query.job_ids),)))


def _read_ended(connection: apsw.Connection, query: ReadEnded) -> list[Ended]:
    rows: list[Row] = list(
        connection.execute(
            QUERIES.find_ended,
            (
                *(to_micros(query.before), query.limit),
                *(to_micros(query.after.ended_at), query.after.job_id),
            ),
        )
    )
    ids = encode_ids(job_id for _, job_id in rows)
    parents = _group(connection.execute(QUERIES.find_parents, (ids,)))
    return [
        Ended(to_instant(ended_at), job_id, tuple(parents.get(job_id, ())))
        for ended_at, job_id in rows
    ]


def _group(edges: Iterable[tuple[JobId, JobId]]) -> dict[JobId, list[JobId]]:
    found: dict[JobId, list[JobId]] = {}
    for key, value in edges:
        found.setdefault(key, []).append(value)
    return found


_ANSWERS: dict[type, Callable[[apsw.Connection, Any], Any]] = {
    ReadJobs: _read_jobs,
    ReadStatuses: _read_statuses,
    ReadTwins: _read_twins,
    ReadWaiting: _read_waiting,
    ReadAncestors: _read_ancestors,
    ReadDependents: _read_dependents,
    ReadEnded: _read_ended,
}


def _commit(connection: apsw.Connection, writes: Writes) -> None:
    now = writes.now

    def write(statement: str, rows: Sequence[Row]) -> None:
        if rows:
            connection.executemany(statement, rows)

    write(QUERIES.insert_job, [_encode_new(new, now) for new in writes.new.values()])
    write(QUERIES.move_job, [encode_move(job, now) for job in writes.moved.values()])
    write(QUERIES.amend_job, [encode_amendment(one.job, now) for one in writes.amended.values()])
    relinked = [one for one in writes.amended.values() if one.open_count is not None]
    write(QUERIES.remove_dependencies, [(one.job.id,) for one in relinked])
    linked = [one.job for one in writes.new.values()] + [one.job for one in relinked]
    edges = [(parent, job.id) for job in linked for parent in job.dependencies]
    write(QUERIES.add_dependency, edges)
    write(QUERIES.mark_awaited, [(job_id,) for job_id in writes.awaited])
    _count_open(write, writes, relinked)
    _place(write, writes)
    write(QUERIES.add_attempt, [encode_attempt(attempt) for attempt in writes.attempts])
    write(QUERIES.add_report, encode_reports(writes.attempts))
    write(QUERIES.keep_result, list(writes.results.items()))
    write(QUERIES.remove_result, [(job_id,) for job_id in writes.without_results])
    for statement in (QUERIES.remove_attempts, QUERIES.remove_reports):
        write(statement, [(job_id,) for job_id in writes.without_attempts])
    removed = [(job_id,) for job_id in writes.removed]
    for statement in _REMOVALS:
        write(statement, removed)


_REMOVALS = (
    QUERIES.remove_dependencies,
    QUERIES.forget_open,
    QUERIES.remove_attempts,
    QUERIES.remove_reports,
    QUERIES.remove_result,
    QUERIES.remove_job,
)


def _count_open(write: Write, writes: Writes, relinked: Sequence[Amended]) -> None:
    """Count the dependencies for which new and amended jobs wait.

    The row of the job has the count, unless it would be too large or has no place for the policy.
    """
    recounted = [(one.job, one.open_count or 0) for one in relinked]
    blocked = [job for job in writes.moved.values() if job.status is JobStatus.BLOCKED]
    write(QUERIES.forget_open, [(job.id,) for job in (*blocked, *(job for job, _ in recounted))])
    write(QUERIES.count_open, [(job.id, count) for job, count in recounted])
    counted = [*((one.job, one.open_count) for one in writes.new.values()), *recounted]
    write(QUERIES.keep_open, [_encode_open(job, count) for job, count in counted if _is_apart(job)])
    amended = (one.job for one in writes.amended.values())
    write(QUERIES.amend_open, [(job.id, job.queue, to_micros(job.due_at)) for job in amended])


def _encode_open(job: Job, count: int) -> Row:
    due_at = to_micros(job.due_at)
    return job.id, job.tenant, job.queue, due_at, count, job.on_parent_failure


def _is_apart(job: Job) -> bool:
    is_usual = job.on_parent_failure == "block" and len(job.dependencies) <= MOST_NARROW
    return job.status is JobStatus.PENDING and not is_usual


def _place(write: Write, writes: Writes) -> None:
    placed = writes.placed.items()
    lowered = [(each, one.open_count) for each, one in placed if one.status is JobStatus.PENDING]
    write(QUERIES.count_open, lowered)
    write(QUERIES.lower_open, lowered)
    now = to_micros(writes.now)
    ended = [(each, one) for each, one in placed if one.status is not JobStatus.PENDING]
    write(
        QUERIES.place_job, [(each, one.status, now, one.ending, one.error) for each, one in ended]
    )
    write(QUERIES.forget_open, [(each,) for each, _ in ended])


def _encode_new(new: NewJob, now: datetime) -> Row:
    row = encode_job(new.job, now, new.open_count, is_awaited=new.is_awaited)
    if new.unreadable is None:
        return row
    return encode_unreadable(row, UNREADABLE_COPY, seal(new.unreadable))
