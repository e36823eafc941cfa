"""``amend``: fields of a job are changed by hand, under the same rules as for a new one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.errors import DamagedJobError, DuplicateJobError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus, amend_job, normalize_job_id
from rota.stores.postgres.jobs.changes.family import Family
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.queries import QUERIES
from rota.stores.postgres.jobs.rows import digest_identity, encode_body, known_ids


class Amendment(NamedTuple):
    """Which fields of whose job are to change, and when."""

    tenant: str
    job_id: JobId
    fields: Mapping[str, Any]
    now: datetime


async def amend(statements: Statements, wanted: Amendment) -> Job:
    """The job as it has become; see the protocol."""
    async with statements.transaction():
        if "dependencies" in wanted.fields:
            await statements.fetch(QUERIES.lock_dependencies, wanted.tenant)
        family = Family(statements)
        await family.lock([wanted.job_id])
        before = _existing(family, wanted)
        amended = await _amended(statements, family, before, wanted)
        await _write(statements, before, amended, wanted.now)
        if amended.status.is_terminal:
            await family.lock_waiting((), [amended.id])
            family.settle_dependents(amended, wanted.now)
            await family.write(wanted.now)
    return amended


def _existing(family: Family, wanted: Amendment) -> Job:
    if family.damaged:
        raise DamagedJobError(wanted.job_id, family.damaged[0].reason)
    job = family.jobs.get(wanted.job_id)
    if job is None or job.tenant != wanted.tenant:
        raise JobNotFoundError(wanted.job_id)
    return job


async def _amended(statements: Statements, family: Family, before: Job, wanted: Amendment) -> Job:
    """The job as it shall be, if it may."""
    statuses: dict[JobId, JobStatus] = {}
    links: defaultdict[JobId, list[JobId]] = defaultdict(list)
    if "dependencies" in wanted.fields:
        named = _ids_in(wanted.fields["dependencies"])
        await family.lock([*named, *before.dependencies])
        mine = (job for job in family.jobs.values() if job.tenant == wanted.tenant)
        statuses = {job.id: job.status for job in mine}
        for child, parent in await statements.fetch(QUERIES.find_ancestors, named):
            links[child].append(parent)
    amended = amend_job(
        before, wanted.fields, wanted.now, dependency_statuses=statuses, existing_jobs=links
    )
    digest = digest_identity(amended)
    if digest is not None and digest != digest_identity(before):
        for twin, *_ in await statements.fetch(QUERIES.find_twins, [digest]):
            raise DuplicateJobError(twin, "with the same idempotency key under that kind")
    return amended


def _ids_in(value: object) -> list[JobId]:
    """The ids that new dependencies may name; whether they are right the rules say."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        return []
    return known_ids(normalize_job_id(str(each)) or "" for each in value)


async def _write(statements: Statements, before: Job, amended: Job, now: datetime) -> None:
    await statements.fetch(
        QUERIES.amend,
        now,
        amended.id,
        amended.queue,
        amended.priority,
        amended.status,
        amended.due_at,
        amended.updated_at,
        digest_identity(amended),
        encode_body(amended),
    )
    if amended.dependencies != before.dependencies:
        parents = list(amended.dependencies)
        await statements.fetch(QUERIES.remove_dependencies, [amended.id])
        await statements.fetch(QUERIES.add_dependencies, parents, [amended.id] * len(parents))
        await statements.fetch(QUERIES.mark_awaited, sorted(parents))
        await statements.fetch(QUERIES.unmark_awaited, sorted(before.dependencies))
