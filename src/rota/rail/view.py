"""A job in specification 3's words."""

from datetime import datetime
from typing import Any

import msgspec

from rota.jobs import Job, JobId, Overlap, format_instant, rail_word
from rota.jobs.states import RailWord
from rota.rail.reading import show_rail_priority

_SPECIFIED_NAMES = {"tenant": "guildId", "kind": "type"}


def _outer_name(name: str) -> str:
    """As the specification spells it."""
    first, *others = name.split("_")
    return _SPECIFIED_NAMES.get(name, first + "".join(part.title() for part in others))


class SeriesView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The series that a job belongs to; exactly one of the first three says when.

    ``scheduled_for`` is the occurrence that the job stands for, whatever has moved ``run_at``.
    """

    rrule: str | None = None
    cron: str | None = None
    interval: str | None = None
    tz: str
    start_from: datetime
    overlap: Overlap = "skip"
    scheduled_for: datetime
    origin_job_id: JobId
    missed_count: int = 0
    is_paused: bool = False


class RailJob(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename=_outer_name,
):
    """A job as the rail shows it: ``state`` is queued, processing, done, failed or dlq.

    Attributes are spelled as Python spells them; ``to_document`` gives specification 3's names.
    """

    job_id: JobId
    tenant: str
    kind: str
    payload: Any
    priority: int
    run_at: datetime
    attempts: int
    state: RailWord
    last_error: str | None = None
    lease_until: datetime | None = None
    worker_id: str | None = None
    idempotency_key: str | None = None
    run_at_bucket: str | None = None
    queue: str
    deferred_until: datetime | None = None
    deferred_reason: str | None = None
    deferred_count: int = 0
    series: SeriesView | None = None
    replaces: JobId | None = None
    created_at: datetime
    updated_at: datetime

    def to_document(self) -> dict[str, Any]:
        """Plain values for JSON; what is absent is left out, instants are ISO 8601 text."""
        plain: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(datetime,))
        return {
            name: value if name == "payload" else _with_text(value) for name, value in plain.items()
        }


def view_job(job: Job) -> RailJob:
    lease, deferral = job.lease, job.deferral
    return RailJob(
        job_id=job.id,
        tenant=job.tenant,
        kind=job.kind,
        payload=job.payload,
        priority=show_rail_priority(job.priority),
        run_at=job.due_at,
        attempts=job.attempt_count,
        state=rail_word(job.status, job.ending),
        last_error=job.last_error,
        lease_until=None if lease is None else lease.until,
        worker_id=None if lease is None else lease.worker,
        idempotency_key=job.idempotency_key,
        run_at_bucket=job.occurrence,
        queue=job.queue,
        deferred_until=None if deferral is None else deferral.until,
        deferred_reason=None if deferral is None else deferral.reason,
        deferred_count=0 if deferral is None else deferral.count,
        series=_view_series(job),
        replaces=job.replaces,
        created_at=job.created_at,
        updated_at=job.updated_at,
    )


def _view_series(job: Job) -> SeriesView | None:
    recurrence = job.recurrence
    if recurrence is None:
        return None
    return SeriesView(
        rrule=recurrence.rrule,
        cron=recurrence.cron,
        interval=recurrence.interval,
        tz=recurrence.zone,
        start_from=recurrence.start,
        overlap=recurrence.overlap,
        scheduled_for=job.occurrence_at or job.due_at,
        origin_job_id=job.origin or job.id,
        missed_count=job.missed_count,
        is_paused=job.is_paused,
    )


def _with_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, dict):
        return {name: _with_text(inner) for name, inner in value.items()}
    return value
