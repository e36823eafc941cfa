"""How full the queues are, of all tenants together or of one: what an operator wants to know."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from rota.jobs import Ending, Job, JobStatus, is_stalled

_DEAD = frozenset({Ending.EXHAUSTED, Ending.LOST})


class QueueDepth(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one queue that are not done with, as of one moment.

    ``due_count`` are READY and may be leased now, the first of them since ``oldest_due_at``;
    ``later_count`` are READY and due later. Of the ``running_count`` that are RUNNING the leases
    of ``stalled_count`` have run out. ``dead_count`` are dead letters: they were tried as often as
    they may be, and are kept.
    """

    queue: str
    due_count: int = 0
    later_count: int = 0
    running_count: int = 0
    stalled_count: int = 0
    dead_count: int = 0
    oldest_due_at: datetime | None = None


def survey_jobs(jobs: Iterable[Job], now: datetime, tenant: str | None = None) -> list[QueueDepth]:
    """The depths of all queues that have such jobs, by name: what every store's are held to."""
    by_queue: dict[str, list[Job]] = {}
    for job in jobs:
        if tenant is not None and job.tenant != tenant:
            continue
        if job.status in {JobStatus.READY, JobStatus.RUNNING} or is_dead(job):
            by_queue.setdefault(job.queue, []).append(job)
    return [_survey_queue(queue, by_queue[queue], now) for queue in sorted(by_queue)]


def is_dead(job: Job) -> bool:
    """Whether the job is a dead letter: nobody discarded or cancelled it, it just never worked."""
    return job.status is JobStatus.FAILED and job.ending in _DEAD


def _survey_queue(queue: str, jobs: list[Job], now: datetime) -> QueueDepth:
    ready = [job for job in jobs if job.status is JobStatus.READY]
    due = [job.due_at for job in ready if job.due_at <= now]
    return QueueDepth(
        queue=queue,
        due_count=len(due),
        later_count=len(ready) - len(due),
        running_count=sum(job.status is JobStatus.RUNNING for job in jobs),
        stalled_count=sum(is_stalled(job, now) for job in jobs),
        dead_count=sum(map(is_dead, jobs)),
        oldest_due_at=min(due, default=None),
    )
