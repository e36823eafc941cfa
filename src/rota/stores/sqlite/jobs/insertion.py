"""``insert``: all jobs of a call, or none."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

import apsw
from msgspec.structs import replace

from rota.jobs import Job, JobId, JobStatus
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.protocol import Inserted
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import Row, decode_job, encode_ids, encode_job, read_payload


class Asked(NamedTuple):
    """Jobs that are to be kept, and their rows as they were when they were handed in.

    The rows are made at once: whoever asked may change a payload while he waits.
    """

    jobs: Sequence[Job]
    rows: Sequence[Row]
    now: datetime

    @classmethod
    def of(cls, jobs: Sequence[Job], now: datetime) -> "Asked":
        """Without dependencies a job is READY, whatever it says."""
        asked = [
            job
            if job.status is JobStatus.READY or job.dependencies
            else replace(job, status=JobStatus.READY)
            for job in jobs
        ]
        return cls(asked, [encode_job(job, now) for job in asked], now)


def insert_jobs(connection: apsw.Connection, asked: Asked) -> list[Inserted]:
    """Keep the jobs; see ``JobStore.insert``.

    Nearly all are new and depend on nobody: they are written as they are, and only when one of
    them turns out to exist is it looked up what they may clash with.
    """
    if not any(job.dependencies for job in asked.jobs) and _insert_new(connection, asked.rows):
        return [Inserted(job) for job in asked.jobs]
    jobs = [
        replace(job, payload=read_payload(row))
        for job, row in zip(asked.jobs, asked.rows, strict=True)
    ]
    answers = plan_insertion(jobs, _look_up(connection, jobs))
    new = [answer.job for answer in answers if not answer.is_existing]
    connection.executemany(QUERIES.insert, [encode_job(job, asked.now) for job in new])
    link(connection, [job for job in new if job.dependencies])
    return answers


def insert_successor(connection: apsw.Connection, successor: Job, now: datetime) -> bool:
    """Keep the next job of a series, unless there is one already under its id or its key."""
    connection.execute(QUERIES.insert, encode_job(successor, now))
    return connection.changes() == 1


def link(connection: apsw.Connection, jobs: Sequence[Job]) -> None:
    """Write what these jobs depend on, once all of them have been written."""
    edges = [(parent, job.id) for job in jobs for parent in job.dependencies]
    connection.executemany(QUERIES.add_dependency, edges)
    connection.executemany(QUERIES.mark_awaited, {(parent,) for parent, _ in edges})
    connection.executemany(QUERIES.count_open, [(job.id,) for job in jobs])


def find_twin(connection: apsw.Connection, identity: Identity) -> JobId | None:
    """The job that has this identity."""
    found = connection.execute(QUERIES.find_twin, identity).fetchone()
    return None if found is None else found[0]


def read_jobs(connection: apsw.Connection, job_ids: Sequence[JobId]) -> list[Job]:
    """Those that exist; DamagedJobError when one of them cannot be read."""
    return list(map(decode_job, connection.execute(QUERIES.read_jobs, (encode_ids(job_ids),))))


def _insert_new(connection: apsw.Connection, rows: Sequence[Row]) -> bool:
    """Write all rows, or take them back when one of them clashes."""
    inserted: list[Row] = []

    def note_each() -> Iterator[Row]:
        for row in rows:
            yield row
            if connection.changes():
                inserted.append(row)

    connection.executemany(QUERIES.insert, note_each())
    if len(inserted) == len(rows):
        return True
    connection.executemany(QUERIES.take_back, [row[:1] for row in inserted])
    return False


def _look_up(connection: apsw.Connection, jobs: Sequence[Job]) -> Kept:
    """Whatever the new jobs may clash with or depend on."""
    identities = [identity for job in jobs if (identity := identity_of(job)) is not None]
    twins = [twin for each in identities if (twin := find_twin(connection, each)) is not None]
    ids = {job.id for job in jobs}
    by_id = {job.id: job for job in read_jobs(connection, [*ids.union(twins)])}
    named = ids.union(*(job.dependencies for job in jobs))
    statuses = connection.execute(QUERIES.read_statuses, (encode_ids(named),))
    return Kept(
        by_id=by_id,
        by_identity={
            identity: job for job in by_id.values() if (identity := identity_of(job)) is not None
        },
        statuses={(tenant, job_id): JobStatus(status) for tenant, job_id, status in statuses},
    )
