"""How full the queues are: the reference for ``JobStore.survey``."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from rota.jobs import Job, JobStatus, is_dead_letter, is_stalled
from rota.stores.protocol import QueueDepth

SURVEYED = (JobStatus.READY, JobStatus.RUNNING, JobStatus.FAILED)
"""The statuses of the jobs that count."""

COUNTS = ("due_count", "later_count", "running_count", "stalled_count", "dead_count")
"""The fields of a ``QueueDepth`` that are counts."""


def survey_jobs(jobs: Iterable[Job], now: datetime, tenant: str | None = None) -> list[QueueDepth]:
    """The depths of all queues that have jobs, by name."""
    by_queue: dict[str, list[Job]] = {}
    for job in jobs:
        if tenant is not None and job.tenant != tenant:
            continue
        if job.status in {JobStatus.READY, JobStatus.RUNNING} or is_dead_letter(job):
            by_queue.setdefault(job.queue, []).append(job)
    return [_survey_queue(queue, by_queue[queue], now) for queue in sorted(by_queue)]


def make_depths(
    rows: Iterable[Sequence[Any]], read_instant: Callable[[Any], datetime]
) -> list[QueueDepth]:
    """The depths in rows of a database, with the fields of a ``QueueDepth`` in their order."""
    return [
        QueueDepth(
            queue=queue,
            due_count=int(due),
            later_count=int(later),
            running_count=int(running),
            stalled_count=int(stalled),
            dead_count=int(dead),
            oldest_due_at=None if oldest is None else read_instant(oldest),
        )
        for queue, due, later, running, stalled, dead, oldest in rows
    ]


def add_depths(
    depths: Iterable[QueueDepth], label: Callable[[str], str] = str
) -> dict[str, QueueDepth]:
    """The depths by queue, or by a label of it. Those with the same label are added up."""
    total: dict[str, QueueDepth] = {}
    for depth in depths:
        name = label(depth.queue)
        known = total.get(name) or QueueDepth(queue=name)
        instants = [it for it in (known.oldest_due_at, depth.oldest_due_at) if it is not None]
        counts = {field: getattr(known, field) + getattr(depth, field) for field in COUNTS}
        total[name] = QueueDepth(queue=name, oldest_due_at=min(instants, default=None), **counts)
    return total


def _survey_queue(queue: str, jobs: list[Job], now: datetime) -> QueueDepth:
    ready = [job for job in jobs if job.status is JobStatus.READY]
    due = [job.due_at for job in ready if job.due_at <= now]
    return QueueDepth(
        queue=queue,
        due_count=len(due),
        later_count=len(ready) - len(due),
        running_count=sum(job.status is JobStatus.RUNNING for job in jobs),
        stalled_count=sum(is_stalled(job, now) for job in jobs),
        dead_count=sum(map(is_dead_letter, jobs)),
        oldest_due_at=min(due, default=None),
    )
