"""Changing a job, duplicating it, and retrying it with other values."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from rota.errors import AlreadyRetriedError, InvalidJobError
from rota.jobs import Job, JobId, JobStatus, amend_job
from rota.jobs.fields import RANDOM_BITS, make_job_id
from rota.ops.explanation import read_job
from rota.policy.audit import AuditedAction, record_action
from rota.rail.dead_letters import DeadLetters, Retried, replacement_id
from rota.rail.jobs import RailContext, find_job

COPIED = frozenset(
    {"auto_remove", "due_at", "label", "name", "notifies", "payload", "priority", "queue"}
    | {"retry_policy"}
)
"""The fields of a job that a copy of it may have otherwise."""


async def edit_job(
    around: RailContext,
    job_id: JobId,
    changes: Mapping[str, Any],
    *,
    who: str | None = None,
    why: str | None = None,
) -> Job:
    """Change fields of a job that has not ended, as ``amend_job`` allows. The audit log has it.

    With ``updated_at`` among the changes, JobChangedError is raised if the job has changed since.
    """
    job = await read_job(around.store, around.tenant, job_id)
    now = around.clock.now()
    amend_job(job, changes, now)  # what it refuses is not recorded
    details = {"fields": sorted(changes.keys() - {"updated_at"})}
    act = AuditedAction(action="edit", who=who, why=why, job_ids=[job.id], details=details)
    await record_action(around, act)
    return await around.store.amend(around.tenant, job.id, changes, now)


async def duplicate_job(
    around: RailContext,
    job_id: JobId,
    changes: Mapping[str, Any] | None = None,
    *,
    who: str | None = None,
    why: str | None = None,
) -> Job:
    """Create a job like this one, in any state, with other values for some fields.

    It is due now and waits for the same dependencies. It has no idempotency key, and it does not
    recur: a duplicate of a job of a series is a single job.
    """
    job = await read_job(around.store, around.tenant, job_id)
    now = around.clock.now()
    copy = Job(
        id=make_job_id(now, around.draw_bits(RANDOM_BITS)),
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=now,
        status=JobStatus.READY,
        retry_policy=job.retry_policy,
        created_at=now,
        updated_at=now,
    )
    rare = {name: getattr(job, name) for name in ("label", "notifies", "on_parent_failure")}
    copy = replace(copy, **rare, dependencies=job.dependencies, auto_remove=job.auto_remove)
    copy = amend_job(copy, _check(changes or {}), now)
    ids, details = [job.id, copy.id], {"fields": sorted(changes or {})}
    act = AuditedAction(action="duplicate", who=who, why=why, job_ids=ids, details=details)
    await record_action(around, act)
    (inserted,) = await around.store.insert([copy], now)
    return inserted.job


async def retry_edited(
    around: RailContext,
    job_id: JobId,
    changes: Mapping[str, Any],
    *,
    cascade: bool = False,
    who: str | None = None,
    why: str | None = None,
) -> Retried:
    """Retry a dead job with other values for some fields.

    AlreadyRetriedError if the job was retried before: its replacement has other values.
    """
    job = await read_job(around.store, around.tenant, job_id)
    earlier = await find_job(around, replacement_id(job))
    if earlier is not None:
        raise AlreadyRetriedError(job.id, earlier.id)
    letters = DeadLetters(
        around.store, around.tenant, clock=around.clock, draw_bits=around.draw_bits
    )
    retried = await letters.retry(
        job.id, cascade=cascade, changes=_check(changes), who=who, why=why
    )
    if job.id in retried.earlier_ids:  # another caller was faster
        raise AlreadyRetriedError(job.id, retried.replacements[job.id])
    return retried


def _check(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in changes:
        if name not in COPIED:
            raise InvalidJobError(name, "cannot be changed in a copy of a job")
    return changes
