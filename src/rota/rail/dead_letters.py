"""Dead letters: list them, retry them as new jobs, or discard them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from secrets import randbits
from typing import Any

import msgspec

from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import InvalidInputError, JobNotFoundError
from rota.jobs import (
    Attempt,
    Ending,
    Job,
    JobFilter,
    JobId,
    JobStatus,
    amend_job,
    derive_job_id,
    is_dead_letter,
)
from rota.jobs.fields import read_id
from rota.policy.audit import AuditedAction, record_action
from rota.policy.once import RETRY_MARK
from rota.rail.jobs import (
    RailContext,
    RailJob,
    RailPage,
    RailSettings,
    RailStore,
    Search,
    list_rail_jobs,
    view_job,
    walk_jobs,
    walk_search,
)
from rota.rail.rail import read_tenant


class Resubmission(msgspec.Struct, frozen=True):
    """The effect of a retry: the dead jobs, and the jobs blocked by them."""

    dead: tuple[Job, ...]
    blocked: tuple[Job, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        return (*self.dead, *self.blocked)


def is_dead(job: Job) -> bool:
    """Whether the job failed, and was not cancelled: a dead letter, or discarded by its handler."""
    return is_dead_letter(job) or job.ending is Ending.DISCARDED


def find_blocked(dead: Iterable[Job], blocked: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs in ``blocked`` that wait, directly or through others, for one of the dead jobs.

    A blocked job that also waits for another failure is included. That failure keeps it blocked.
    """
    waiting = {job.id: job for job in blocked}
    dependents: dict[JobId, list[JobId]] = {}
    for job in waiting.values():
        for each in job.dependencies:
            dependents.setdefault(each, []).append(job.id)
    found: dict[JobId, Job] = {}
    left = [each for job in dead for each in dependents.get(job.id, ())]
    while left:
        job_id = left.pop()
        if job_id not in found:
            found[job_id] = waiting[job_id]
            left.extend(dependents.get(job_id, ()))
    return tuple(sorted(found.values(), key=lambda job: job.id))


def replacement_id(job: Job) -> JobId:
    """The id of the job that replaces an ended job, if it was retried."""
    return derive_job_id(f"{job.id}{RETRY_MARK}", job.updated_at)


def replace_jobs(resubmission: Resubmission, now: datetime) -> list[Job]:
    """One new job for each, with the same dependencies among each other."""
    new_ids = {job.id: replacement_id(job) for job in resubmission.jobs}
    return [_replace(job, new_ids, now) for job in resubmission.jobs]


def _replace(job: Job, new_ids: Mapping[JobId, JobId], now: datetime) -> Job:
    """A new job without attempts. A second replacement of the same job has the same id.

    It keeps the dependencies, whose results may be its arguments; those of a dead job have ended.
    Its series has continued without it. The new job is kept after completion, because it shows that
    the dead one was retried.
    """
    occurrence = (job.occurrence or "").partition(RETRY_MARK)[0]
    return Job(
        id=new_ids[job.id],
        tenant=job.tenant,
        queue=job.queue,
        name=job.name,
        kind=job.kind,
        payload=job.payload,
        priority=job.priority,
        due_at=now,
        status=JobStatus.READY,
        dependencies=tuple(new_ids.get(each, each) for each in job.dependencies),
        on_parent_failure=job.on_parent_failure,
        notifies=job.notifies,
        label=job.label,
        retry_policy=job.retry_policy,
        idempotency_key=job.idempotency_key or job.id,
        occurrence=f"{occurrence}{RETRY_MARK}{job.id}",
        occurrence_at=job.occurrence_at,
        replaces=job.id,
        created_at=now,
        updated_at=now,
    )


HIGHEST_RETRY = 1_000
"""The maximum number of jobs one call retries."""


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects dead letters. A dead letter must match every given field.

    ``ended_after`` is inclusive, ``ended_before`` exclusive. ``with_discarded`` includes jobs their
    handler discarded; ``with_retried`` includes jobs that were retried already.
    """

    kind: str | None = None
    queue: str | None = None
    error_contains: str | None = None
    ended_after: datetime | None = None
    ended_before: datetime | None = None
    with_discarded: bool = False
    with_retried: bool = False

    def accepts(self, job: Job) -> bool:
        if not is_dead_letter(job) and not (self.with_discarded and is_dead(job)):
            return False
        if self.kind is not None and job.kind != self.kind:
            return False
        if self.error_contains is not None and self.error_contains not in (job.last_error or ""):
            return False
        return self._accepts_end(job.updated_at)

    def _accepts_end(self, ended_at: datetime) -> bool:
        if self.ended_after is not None and ended_at < self.ended_after:
            return False
        return self.ended_before is None or ended_at < self.ended_before


class DeadLetter(msgspec.Struct, frozen=True):
    """A dead job and all its attempts, first one first: error, worker, start and end."""

    job: RailJob
    attempts: tuple[Attempt, ...]


class RetryPlan(msgspec.Struct, frozen=True):
    """The effect of a retry that has not run yet. ``retry`` runs it.

    ``dependent_ids`` are the jobs blocked by them, which are submitted again too.
    """

    job_ids: tuple[JobId, ...]
    dependent_ids: tuple[JobId, ...] = ()
    has_more: bool = False


class Retried(msgspec.Struct, frozen=True):
    """Maps each retried job to its replacement.

    ``earlier_ids`` are jobs that were retried before; no new job was created for them.
    """

    replacements: dict[JobId, JobId]
    earlier_ids: tuple[JobId, ...] = ()


class DeadLetters:
    """The dead letters of one tenant."""

    def __init__(
        self,
        store: RailStore,
        tenant: str = "default",
        *,
        clock: Clock | None = None,
        draw_bits: Callable[[int], int] = randbits,
    ) -> None:
        self._around = RailContext(
            store, read_tenant(tenant), clock or SystemClock(), RailSettings(), draw_bits
        )

    async def list(
        self,
        wanted: DeadLetterFilter | None = None,
        *,
        cursor: str | None = None,
        limit: int = 20,
    ) -> RailPage:
        """A page of dead letters, newest job first."""
        return await list_rail_jobs(self._around, self._search(wanted), cursor, limit)

    async def inspect(self, job_id: JobId) -> DeadLetter:
        """One dead letter with every attempt.

        Raises JobNotFoundError when the tenant has none with that id.
        """
        (job,) = await self._read([job_id])
        attempts = await self._around.store.attempts(self._around.tenant, job.id)
        return DeadLetter(view_job(job), tuple(attempts))

    async def plan_retry(
        self,
        wanted: DeadLetterFilter | None = None,
        *,
        cascade: bool = False,
        limit: int = HIGHEST_RETRY,
    ) -> RetryPlan:
        """Plan a retry of all matching dead letters, up to ``limit``. Writes nothing."""
        _check_limit(limit)
        dead: list[Job] = []
        has_more = False
        async for job in walk_search(self._around, self._search(wanted)):
            has_more = len(dead) == limit
            if has_more:
                break
            dead.append(job)
        blocked = await self._find_blocked(dead) if cascade else ()
        return RetryPlan(_ids(dead), _ids(blocked), has_more)

    async def retry(
        self,
        what: RetryPlan | JobId,
        *,
        cascade: bool = False,
        changes: Mapping[str, Any] | None = None,
        who: str | None = None,
        why: str | None = None,
    ) -> Retried:
        """Create a new job for each dead job and each job it blocked, in one call.

        Runs a plan of ``plan_retry`` exactly. A job that was retried before keeps its replacement.
        ``changes`` are other values for fields of the new job, such as ``payload``; they are for
        one job only, and not for those it blocked.
        """
        if isinstance(what, RetryPlan):
            dead = await self._read(what.job_ids)
            blocked = await self._read(
                what.dependent_ids, lambda job: job.status is JobStatus.BLOCKED
            )
        else:
            dead = await self._read([what])
            blocked = await self._find_blocked(dead) if cascade else ()
        resubmission = Resubmission(tuple(dead), tuple(blocked))
        now = self._around.clock.now()
        made = replace_jobs(resubmission, now)
        details: dict[str, object] = {}
        if changes:
            made[0] = amend_job(made[0], changes, now)
            details["fields"] = sorted(changes)
        await self._record("retry", _ids(resubmission.jobs), who, why, **details)
        inserted = await self._around.store.insert(made, now) if made else ()
        pairs = tuple(zip(resubmission.jobs, inserted, strict=True))
        earlier = tuple(old.id for old, new in pairs if new.is_existing)
        return Retried({old.id: new.job.id for old, new in pairs}, earlier)

    async def discard(
        self, job_ids: Iterable[JobId], *, who: str | None = None, why: str | None = None
    ) -> int:
        """Delete dead jobs with their attempts. Returns how many.

        Checks all jobs before it deletes any. Raises HasDependentsError when another job depends on
        one; the jobs before it are deleted by then.
        """
        if isinstance(job_ids, str):
            raise InvalidInputError("job_ids must be several, got a text", {"field": "job_ids"})
        dead = await self._read(job_ids)
        errors = {job.id: (job.last_error or "")[:200] for job in dead}
        await self._record("discard", _ids(dead), who, why, errors=errors)
        for job in dead:
            await self._around.store.delete(self._around.tenant, job.id)
        return len(dead)

    def _search(self, wanted: DeadLetterFilter | None) -> Search:
        chosen = wanted or DeadLetterFilter()
        status, only_dead = JobStatus.FAILED, not chosen.with_discarded
        return Search(
            wanted=JobFilter(status=status, queue=chosen.queue, only_dead=only_dead),
            accepts=chosen.accepts,
            sift=None if chosen.with_retried else self._sift_retried,
        )

    async def _sift_retried(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The jobs without a replacement."""
        stand_ins = {job.id: replacement_id(job) for job in jobs}
        found = await self._around.store.get(self._around.tenant, [*stand_ins.values()])
        return [job for job in jobs if stand_ins[job.id] not in found]

    async def _read(
        self, job_ids: Iterable[JobId], accepts: Callable[[Job], bool] = is_dead
    ) -> tuple[Job, ...]:
        named = tuple(dict.fromkeys(read_id(job_id, "job_id") for job_id in job_ids))
        _check_limit(max(len(named), 1))
        found = await self._around.store.get(self._around.tenant, named)
        for job_id in named:
            if job_id not in found or not accepts(found[job_id]):
                raise JobNotFoundError(job_id)
        return tuple(found[job_id] for job_id in named)

    async def _find_blocked(self, dead: Iterable[Job]) -> tuple[Job, ...]:
        wanted = JobFilter(status=JobStatus.BLOCKED)
        return find_blocked(dead, [job async for job in walk_jobs(self._around, wanted)])

    async def _record(
        self,
        action: str,
        job_ids: tuple[JobId, ...],
        who: str | None,
        why: str | None,
        **details: object,
    ) -> None:
        act = AuditedAction(action=action, who=who, why=why, job_ids=job_ids, details=details)
        await record_action(self._around, act)


def _ids(jobs: Iterable[Job]) -> tuple[JobId, ...]:
    return tuple(job.id for job in jobs)


def _check_limit(limit: int) -> None:
    if type(limit) is not int or not 1 <= limit <= HIGHEST_RETRY:
        raise InvalidInputError(
            f"limit must be an integer from 1 to {HIGHEST_RETRY}, got {limit!r}", {"field": "limit"}
        )
