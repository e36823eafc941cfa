"""A job as it is asked for over HTTP, and how it is admitted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.errors import InvalidJobError, InvalidRequestError
from rota.jobs import BackoffStrategy, Job, JobRequest, Overlap, admit_job
from rota.server.api.shapes.words import (
    DEPENDENCIES,
    IdempotencyKey,
    InstantText,
    Kind,
    Name,
    Payload,
    Priority,
    Queue,
    Uuid,
)
from rota.server.surroundings import Surroundings
from rota.triggers.zone import Fold, Gap

KEY_HEADER = "Idempotency-Key"

_OUTER_NAMES = {"due_at": "run_at"}

Rule = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 8192})]


def _between(lowest: int, highest: int) -> Meta:
    return Meta(extra_json_schema={"minimum": lowest, "maximum": highest})


class RetryPolicyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a job is attempted, and how long it waits in between; all of it may be left out.

    ``max_delay_seconds`` must not be less than ``base_delay_seconds``. ``LADDER`` takes its delays
    from ``ladder_seconds``, the last one again and again.
    """

    max_attempts: Annotated[int, _between(1, 10)] = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    base_delay_seconds: Annotated[int, _between(1, 300)] = 10
    max_delay_seconds: Annotated[int, _between(1, 3600)] = 300
    ladder_seconds: Annotated[
        tuple[Annotated[int, _between(1, 604_800)], ...],
        Meta(extra_json_schema={"minItems": 1, "maxItems": 10}),
    ] = (60, 300, 900, 3600)


class RecurrenceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A series of jobs; exactly one of ``cron``, ``rrule`` and ``interval`` says when.

    ``cron`` is an expression of five or six fields, ``rrule`` an RFC 5545 rule, ``interval`` a
    length of time such as ``1h30m``; ``zone`` is the zone on whose clock they are read. ``start``
    left out is now. ``gap`` and ``fold`` say what becomes of an hour that the clocks skip or show
    twice, ``overlap`` what becomes of an occurrence that comes while the one before it runs.
    """

    cron: Rule | None = None
    rrule: Rule | None = None
    interval: Rule | None = None
    zone: str = "UTC"
    start: InstantText | None = None
    until: InstantText | None = None
    count: Annotated[int, _between(1, 100_000)] | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    overlap: Overlap = "skip"


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A job as it is asked for.

    ``kind`` left out is the name, ``run_at`` now, or the first occurrence of the ``recurrence``,
    beside which it cannot stand. ``dependencies`` must exist. With ``auto_remove`` the job is not
    kept when it is COMPLETED.
    """

    name: Name
    queue: Queue
    kind: Kind | None = None
    payload: Payload = {}
    priority: Priority = 5
    dependencies: Annotated[list[Uuid], Meta(extra_json_schema=DEPENDENCIES)] = []
    retry_policy: RetryPolicyBody | None = None
    run_at: InstantText | None = None
    recurrence: RecurrenceBody | None = None
    idempotency_key: IdempotencyKey | None = None
    auto_remove: bool = False


def admit_asked(
    asked: NewJob, around: Surroundings, tenant: str, now: datetime, key: str | None = None
) -> Job:
    """The job that is asked for, with an id of its own; ``key`` is that of the header, if any."""
    if key is not None and asked.idempotency_key not in {None, key}:
        raise InvalidRequestError("idempotency_key", f"differs from the header {KEY_HEADER}")
    try:
        return admit_job(_request(asked, key), job_id=around.make_id(now), now=now, tenant=tenant)
    except InvalidJobError as error:
        raise with_outer_name(error, None if key is None else KEY_HEADER) from error


def with_outer_name(error: InvalidJobError, key_name: str | None = None) -> InvalidJobError:
    """The same error with the field as a request spells it."""
    names: Mapping[str, str] = _OUTER_NAMES
    if key_name is not None:
        names = {**names, "idempotency_key": key_name}
    if error.field not in names:
        return error
    return InvalidJobError(names[error.field], error.reason)


def _request(asked: NewJob, key: str | None) -> JobRequest:
    given: dict[str, Any] = {}
    if asked.retry_policy is not None:
        given["retry_policy"] = msgspec.structs.asdict(asked.retry_policy)
    if asked.recurrence is not None:
        given["recurrence"] = msgspec.structs.asdict(asked.recurrence)
    return JobRequest(
        name=asked.name,
        queue=asked.queue,
        kind=asked.kind,
        payload=asked.payload,
        priority=asked.priority,
        due_at=asked.run_at,  # type: ignore[arg-type] # admission reads ISO 8601 text, too
        dependencies=tuple(asked.dependencies),
        idempotency_key=asked.idempotency_key if key is None else key,
        auto_remove=asked.auto_remove,
        **given,
    )
