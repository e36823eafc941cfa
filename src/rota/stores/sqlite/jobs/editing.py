"""``amend``, ``delete`` and ``prune``: changes by hand, and what may go."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import apsw

from rota.errors import DuplicateJobError, InvalidJobError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus, amend_job, check_deletion
from rota.jobs.fields import read_dependencies
from rota.stores.kernel.identity import identity_of
from rota.stores.sqlite.jobs.insertion import find_twin, link, read_jobs
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.jobs.rows import (
    encode_body,
    encode_deferral,
    encode_ids,
    end_of,
    place_of,
    to_micros,
)
from rota.stores.sqlite.jobs.settling import drop_dependencies, remove_job, settle_dependents


class Amendment(NamedTuple):
    """Which job is to be changed in what, and when."""

    tenant: str
    job_id: JobId
    fields: Mapping[str, Any]
    now: datetime


def amend(connection: apsw.Connection, asked: Amendment) -> Job:
    """Change fields of a job; see ``JobStore.amend``."""
    kept = _existing(connection, asked.tenant, asked.job_id)
    amended = _decide(connection, kept, asked)
    _refuse_twin(connection, amended)
    updated_at = to_micros(amended.updated_at)
    connection.execute(
        QUERIES.amend,
        (
            *(amended.queue, amended.kind, amended.priority, amended.status),
            *(to_micros(amended.due_at), place_of(amended, asked.now)),
            *(updated_at, end_of(amended, updated_at), encode_deferral(amended.deferral)),
            *(encode_body(amended), amended.id),
        ),
    )
    if amended.dependencies != kept.dependencies:
        drop_dependencies(connection, amended.id)
        link(connection, [amended])
    settle_dependents(connection, amended, asked.now)
    return amended


def delete(connection: apsw.Connection, tenant: str, job_id: JobId) -> Job:
    """Remove a job at whatever stage; see ``JobStore.delete``."""
    job = _existing(connection, tenant, job_id)
    dependents = connection.execute(QUERIES.find_dependents, (job_id,))
    check_deletion(job_id, [child for (child,) in dependents])
    remove_job(connection, job_id)
    return job


def prune(connection: apsw.Connection, ended_before: datetime, limit: int) -> int:
    """Remove jobs that ended before then and on which none depends; see ``JobStore.prune``."""
    before = to_micros(ended_before)
    found = list(connection.execute(QUERIES.find_ended, (before, limit)))
    heapify(found)
    gone: list[tuple[JobId]] = []
    while found and len(gone) < limit:
        _, job_id = heappop(found)
        gone.append((job_id,))
        for parent in drop_dependencies(connection, job_id):
            freed = connection.execute(QUERIES.find_freed, (before, parent)).fetchone()
            if freed is not None:
                heappush(found, freed)
    connection.executemany(QUERIES.remove_attempts, gone)
    connection.executemany(QUERIES.remove, gone)
    return len(gone)


def _existing(connection: apsw.Connection, tenant: str, job_id: JobId) -> Job:
    found = read_jobs(connection, [job_id])
    if not found or found[0].tenant != tenant:
        raise JobNotFoundError(job_id)
    return found[0]


def _decide(connection: apsw.Connection, kept: Job, asked: Amendment) -> Job:
    named = _named_dependencies(asked.fields)
    values = (encode_ids(named),)
    statuses = connection.execute(QUERIES.read_statuses, values)
    edges: defaultdict[JobId, list[JobId]] = defaultdict(list)
    for child, parent in connection.execute(QUERIES.find_ancestors, values):
        edges[child].append(parent)
    return amend_job(
        kept,
        asked.fields,
        asked.now,
        dependency_statuses={
            job_id: JobStatus(status)
            for tenant, job_id, status in statuses
            if tenant == asked.tenant
        },
        existing_jobs=edges,
    )


def _named_dependencies(fields: Mapping[str, Any]) -> Sequence[JobId]:
    """The dependencies that are asked for; none when they are such that they will be refused."""
    try:
        return read_dependencies(fields.get("dependencies", ()))
    except InvalidJobError:
        return ()


def _refuse_twin(connection: apsw.Connection, job: Job) -> None:
    identity = identity_of(job)
    twin = None if identity is None else find_twin(connection, identity)
    if twin is not None and twin != job.id:
        raise DuplicateJobError(twin, "with the same idempotency key under that kind")
