"""Validates job requests and amendments: a ``Job``, or an error that names the field."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import to_utc
from rota.errors import (
    DependenciesFixedError,
    DependencyCycleError,
    HasDependentsError,
    InvalidCronExpressionError,
    InvalidInputError,
    InvalidJobError,
    InvalidZoneError,
    JobChangedError,
    JobEndedError,
    NoOccurrenceError,
    UnknownDependencyError,
)
from rota.jobs.codec import encode_job
from rota.jobs.fields import (
    quote,
    read_dependencies,
    read_flag,
    read_id,
    read_instant,
    read_name,
    read_number,
    read_payload,
    read_plain_queue,
    read_priority,
    read_queue,
    read_word,
    require,
    type_name,
)
from rota.jobs.graph import (
    DependencyStatus,
    dependency_status,
    detect_cycle,
    first_dead,
    mark_blocked,
)
from rota.jobs.record import (
    DEFAULT_TENANT,
    RAIL_RETRIES,
    BackoffStrategy,
    CatchUp,
    Job,
    JobId,
    JobRequest,
    OnParentFailure,
    Overlap,
    Recurrence,
    RetryPolicy,
)
from rota.jobs.recurrence import (
    CALENDAR_END,
    first_occurrence,
    make_trigger,
    occurrence_key,
    parse_jitter,
    reschedule,
    start_at,
)
from rota.jobs.states import JobStatus
from rota.triggers.cron import settle_zone
from rota.triggers.rrule import parse_rrule
from rota.triggers.zone import Fold, Gap, load_zone

MAX_ATTEMPTS = 10
LONGEST_BASE_DELAY = 300
LONGEST_DELAY = 3_600
LONGEST_RUNG = 7 * 24 * 3_600

_DEFAULTS = JobRequest(name="", queue="").retry_policy
"""The same object as a request's default, so that an identity check suffices."""


def read_retry_policy(value: object) -> RetryPolicy:
    """The retry policy.

    Missing fields take their defaults before they are compared.
    """
    if value is RAIL_RETRIES:
        return RAIL_RETRIES
    if value is _DEFAULTS or value == _DEFAULTS:
        return _DEFAULTS
    fields = _policy_fields(value)
    base = read_number(
        fields["base_delay_seconds"], "retry_policy.base_delay_seconds", 1, LONGEST_BASE_DELAY
    )
    return RetryPolicy(
        max_attempts=read_number(
            fields["max_attempts"], "retry_policy.max_attempts", 1, MAX_ATTEMPTS
        ),
        backoff_strategy=_read_strategy(fields["backoff_strategy"]),
        base_delay_seconds=base,
        max_delay_seconds=read_number(
            fields["max_delay_seconds"], "retry_policy.max_delay_seconds", base, LONGEST_DELAY
        ),
        ladder_seconds=_read_ladder(fields["ladder_seconds"]),
    )


Retry: TypeAlias = RetryPolicy | Mapping[str, Any] | int
"""A retry policy, a mapping of its fields, or a number of attempts."""


def read_retry(value: Any) -> RetryPolicy:
    """The retry policy. A number is the number of attempts, with the usual delays."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"max_attempts": value}
    if not isinstance(value, RetryPolicy | Mapping):
        reason = "must be a number of attempts, a RetryPolicy or a mapping of its fields"
        raise InvalidJobError("retry", f"{reason}, got {type_name(value)}")
    try:
        return read_retry_policy(value)
    except InvalidJobError as error:
        field = error.field.replace("retry_policy", "retry", 1)
        raise InvalidJobError(field, error.reason) from error


def _policy_fields(value: object) -> dict[str, Any]:
    fields = msgspec.structs.asdict(_DEFAULTS)
    if isinstance(value, RetryPolicy):
        return msgspec.structs.asdict(value)
    if not isinstance(value, Mapping):
        raise InvalidJobError("retry_policy", f"must be an object, got {type_name(value)}")
    for name in value:
        if name not in fields:
            reason = f"is not a field; the fields are {', '.join(fields)}"
            raise InvalidJobError(f"retry_policy.{str(name)[:40]}", reason)
    return fields | dict(value)


def _read_strategy(value: object) -> BackoffStrategy:
    if isinstance(value, str) and value in BackoffStrategy.__members__:
        return BackoffStrategy[value]
    reason = f"must be one of {', '.join(BackoffStrategy.__members__)}, got {quote(value)}"
    raise InvalidJobError("retry_policy.backoff_strategy", reason)


def _read_ladder(value: object) -> tuple[int, ...]:
    field = "retry_policy.ladder_seconds"
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidJobError(field, f"must be a list, got {type_name(value)}")
    if not 1 <= len(value) <= MAX_ATTEMPTS:
        raise InvalidJobError(field, f"must have 1 to {MAX_ATTEMPTS} delays, got {len(value)}")
    return tuple(
        read_number(each, f"{field}[{index}]", 1, LONGEST_RUNG) for index, each in enumerate(value)
    )


MAX_COUNT = 100_000
LONGEST_TEXT = 8_192
LONGEST_JITTER = timedelta(hours=24)

_TEXTS = ("cron", "rrule", "interval")
_SECOND = timedelta(seconds=1)
_CHECKED_GAPS = 5


def read_recurrence(value: object, now: datetime) -> tuple[Recurrence, datetime]:
    """The recurrence as stored, and its first occurrence.

    ``start`` defaults to the DTSTART of the rule's text, or now. It is rounded up to a whole
    second, so that no occurrence is before it.
    """
    fields = _recurrence_fields(value)
    trigger = _only_text(fields)
    _settle_zone(fields)
    zone = _read_zone(fields["zone"])
    start = _read_start(fields, trigger, zone, now)
    recurrence = Recurrence(
        cron=fields["cron"],
        rrule=fields["rrule"],
        interval=fields["interval"],
        zone=zone,
        start=-(-start.microsecond // 1_000_000) * _SECOND + start.replace(microsecond=0),
        until=_read_optional_instant(fields["until"], "recurrence.until"),
        count=_read_count(fields["count"]),
        gap=_read_choice(fields["gap"], "recurrence.gap", get_args(Gap)),
        fold=_read_choice(fields["fold"], "recurrence.fold", get_args(Fold)),
        overlap=_read_choice(fields["overlap"], "recurrence.overlap", get_args(Overlap)) or "skip",
        catch_up=_read_choice(fields["catch_up"], "recurrence.catch_up", get_args(CatchUp))
        or "once",
        jitter=_read_jitter(fields["jitter"]),
        alert_after=_read_alert(fields["alert_after"], fields["overlap"]),
    )
    if recurrence.start >= CALENDAR_END:
        raise InvalidJobError("recurrence.start", f"must be before {CALENDAR_END:%Y-%m-%d}")
    first = _read_first(recurrence, trigger, now)
    if recurrence.jitter is not None:
        _check_jitter(recurrence, recurrence.jitter, first)
    return recurrence, first


def _recurrence_fields(value: object) -> dict[str, Any]:
    defaults = dict.fromkeys(Recurrence.__struct_fields__) | {
        "overlap": "skip",
        "catch_up": "once",
    }
    if isinstance(value, Recurrence):
        return msgspec.structs.asdict(value)
    if not isinstance(value, Mapping):
        raise InvalidJobError("recurrence", f"must be an object, got {type_name(value)}")
    for name in value:
        if name not in defaults or name in ("unmet_since", "is_continued"):
            raise InvalidJobError(f"recurrence.{str(name)[:40]}", "is not a field")
    return defaults | dict(value)


def _settle_zone(fields: dict[str, Any]) -> None:
    """A zone in front of the cron expression becomes that of the series, which is UTC without."""
    if fields["cron"] is not None and isinstance(fields["zone"], str | None):
        try:
            fields["cron"], fields["zone"] = settle_zone(fields["cron"], fields["zone"])
        except InvalidCronExpressionError as error:
            raise InvalidJobError("recurrence.cron", f"is refused: {error.message}") from error
        except InvalidInputError as error:
            raise InvalidJobError("recurrence.zone", error.message.removeprefix("zone ")) from error
    if fields["zone"] is None:
        fields["zone"] = "UTC"


def _only_text(fields: Mapping[str, Any]) -> str:
    given = [name for name in _TEXTS if fields[name] is not None]
    if len(given) != 1:
        raise InvalidJobError("recurrence", f"must have exactly one of {', '.join(_TEXTS)}")
    field = f"recurrence.{given[0]}"
    text = require(str, fields[given[0]], field, "a text")
    if not 1 <= len(text) <= LONGEST_TEXT:
        raise InvalidJobError(field, f"must have 1 to {LONGEST_TEXT} characters, got {len(text)}")
    return given[0]


def _read_start(fields: Mapping[str, Any], trigger: str, zone: str, now: datetime) -> datetime:
    if fields["start"] is not None:
        return read_instant(fields["start"], "recurrence.start")
    if trigger == "rrule" and "DTSTART" in fields["rrule"].upper():
        try:
            return parse_rrule(fields["rrule"], zone=load_zone(zone)).start
        except InvalidInputError as error:
            raise InvalidJobError("recurrence.rrule", f"is refused: {error.message}") from error
    return now


def _read_first(recurrence: Recurrence, trigger: str, now: datetime) -> datetime:
    try:
        first = first_occurrence(recurrence, now)
    except (InvalidInputError, NoOccurrenceError) as error:
        raise InvalidJobError(f"recurrence.{trigger}", f"is refused: {error.message}") from error
    if first is None:
        raise InvalidJobError("recurrence", "has no occurrence between its start and its end")
    return first


def _read_zone(value: object) -> str:
    zone = require(str, value, "recurrence.zone", "the name of a time zone")
    try:
        load_zone(zone)
    except InvalidZoneError as error:
        raise InvalidJobError("recurrence.zone", f"is refused: {error.message}") from error
    return zone


def _read_jitter(value: object) -> str | None:
    text = _read_duration(value, "recurrence.jitter", "30s or 5m")
    if text is not None and parse_jitter(text) > LONGEST_JITTER:
        raise InvalidJobError("recurrence.jitter", f'must be at most 24h, got "{text[:40]}"')
    return text


def _read_alert(value: object, overlap: object) -> str | None:
    text = _read_duration(value, "recurrence.alert_after", "30m or 26h")
    if text is not None and overlap == "allow":
        reason = 'cannot be combined with overlap "allow"; use skip or queue'
        raise InvalidJobError("recurrence.alert_after", reason)
    return text


def _read_duration(value: object, field: str, examples: str) -> str | None:
    if value is None:
        return None
    text = require(str, value, field, f"a duration such as {examples}")
    try:
        parse_jitter(text)
    except InvalidInputError as error:
        reason = f'must be a duration such as {examples}, got "{text[:40]}"'
        raise InvalidJobError(field, reason) from error
    return text


def _check_jitter(recurrence: Recurrence, jitter: str, first: datetime) -> None:
    """A jitter as long as the time between two occurrences would make one pass the other."""
    trigger, longest, at = make_trigger(recurrence), parse_jitter(jitter), first
    for _ in range(_CHECKED_GAPS):
        after = trigger.next_after(at)
        if after is None:
            return
        if after - at <= longest:
            reason = f"must be shorter than the time between occurrences, which is {after - at}"
            raise InvalidJobError("recurrence.jitter", f'{reason}; got "{jitter}"')
        at = after


def _read_notifies(value: object) -> bool | None:
    return None if value is None else read_flag(value, "notifies")


def _read_label(value: object) -> str | None:
    return None if value is None else read_word(value, "label")


def _read_optional_instant(value: object, field: str) -> datetime | None:
    return None if value is None else read_instant(value, field)


def _read_count(value: object) -> int | None:
    return None if value is None else read_number(value, "recurrence.count", 1, MAX_COUNT)


def _read_choice(value: object, field: str, choices: tuple[str, ...]) -> Any:
    if value is None or value in choices:
        return value
    raise InvalidJobError(field, f"must be one of {', '.join(choices)}, got {quote(value)}")


REQUEST_FIELDS = frozenset(JobRequest.__struct_fields__) - {"occurrence", "replaces"}
"""The fields a mapping may have. The others are for programs that make a JobRequest."""

_rare_fields = attrgetter(
    *("occurrence", "auto_remove", "notifies", "label"),
    *("on_parent_failure", "replaces", "recurrence"),
)
_NOTHING_RARE = _rare_fields(JobRequest(name="", queue=""))

_STATUS_AT_FIRST = {
    DependencyStatus.SATISFIED: JobStatus.READY,
    DependencyStatus.WAITING: JobStatus.PENDING,
}


def admit_job(
    request: JobRequest | Mapping[str, Any],
    *,
    job_id: JobId,
    now: datetime,
    tenant: str = DEFAULT_TENANT,
    dependency_statuses: Mapping[JobId, JobStatus] | None = None,
) -> Job:
    """The requested job, with every field validated. InvalidJobError names the first invalid one.

    ``kind`` defaults to the name. With ``dependency_statuses`` the dependencies must exist and
    decide the first status; without, a job with dependencies is PENDING until ``place_job`` has
    seen them.
    """
    asked = request if isinstance(request, JobRequest) else _read_mapping(request)
    now = to_utc(now, "now")
    name, key = read_name(asked.name), asked.idempotency_key
    # Other fields follow below: a call with more than 15 keywords takes four times as long.
    job = Job(
        id=read_id(job_id, "id"),
        tenant=read_word(tenant, "tenant"),
        queue=read_queue(asked.queue),
        name=name,
        kind=name if asked.kind is None else read_word(asked.kind, "kind"),
        payload=read_payload(asked.payload),
        priority=read_priority(asked.priority),
        due_at=now if asked.due_at is None else read_instant(asked.due_at, "due_at"),
        status=JobStatus.READY,
        dependencies=() if asked.dependencies == () else read_dependencies(asked.dependencies),
        retry_policy=read_retry_policy(asked.retry_policy),
        idempotency_key=None if key is None else read_name(key, "idempotency_key"),
        created_at=now,
        updated_at=now,
    )
    # A zero equals False, and must be refused.
    if asked.auto_remove is not False or _rare_fields(asked) != _NOTHING_RARE:
        job = _with_rare_fields(job, asked, now)
    return place_job(job, dependency_statuses) if job.dependencies else job


def _with_rare_fields(job: Job, asked: JobRequest, now: datetime) -> Job:
    job = replace(
        job,
        occurrence=None if asked.occurrence is None else read_name(asked.occurrence, "occurrence"),
        auto_remove=read_flag(asked.auto_remove, "auto_remove"),
        notifies=_read_notifies(asked.notifies),
        label=_read_label(asked.label),
        on_parent_failure=_read_choice(
            asked.on_parent_failure, "on_parent_failure", get_args(OnParentFailure)
        )
        or "block",
        replaces=None if asked.replaces is None else read_id(asked.replaces, "replaces"),
    )
    return job if asked.recurrence is None else _with_series(job, asked, now)


def place_job(
    job: Job,
    dependency_statuses: Mapping[JobId, JobStatus] | None,
    existing_jobs: Mapping[JobId, Iterable[JobId]] | None = None,
) -> Job:
    """The job with the status its dependencies give it.

    Raises DependencyCycleError when they form a cycle, with ``existing_jobs`` as the dependencies
    of others, and UnknownDependencyError when ``dependency_statuses`` lacks one of them.
    """
    if not job.dependencies:
        return job if job.status is JobStatus.READY else replace(job, status=JobStatus.READY)
    found = detect_cycle(job.id, job.dependencies, existing_jobs or {})
    if found.has_cycle:
        raise DependencyCycleError(found.cycle_path)
    if dependency_statuses is not None:
        missing = [each for each in job.dependencies if each not in dependency_statuses]
        if missing:
            raise UnknownDependencyError(missing)
    statuses = dependency_statuses or {}
    readiness = dependency_status(job, statuses)
    if readiness is DependencyStatus.BLOCKED:
        return mark_blocked(job, first_dead(job, statuses))
    return replace(job, status=_STATUS_AT_FIRST[readiness])


def _read_mapping(fields: Mapping[str, Any]) -> JobRequest:
    if not isinstance(fields, Mapping):
        raise InvalidJobError("job", f"must be an object, got {type_name(fields)}")
    for name in fields:
        if name not in REQUEST_FIELDS:
            raise InvalidJobError(str(name)[:40], "is not a field of a job")
    for name in ("name", "queue"):
        if name not in fields:
            raise InvalidJobError(name, "is missing")
    read_plain_queue(fields["queue"])
    return JobRequest(**fields)


def _with_series(job: Job, asked: JobRequest, now: datetime) -> Job:
    """In a series the first occurrence is the due time. The default key is the series."""
    if asked.due_at is not None:
        raise InvalidJobError("due_at", "cannot be given beside a recurrence, which says when")
    recurrence, first_at = read_recurrence(asked.recurrence, now)
    return replace(
        job,
        due_at=start_at(recurrence, job.id, first_at),
        recurrence=recurrence,
        occurrence_at=first_at,
        origin=job.id,
        idempotency_key=job.idempotency_key or job.id,
        occurrence=job.occurrence or occurrence_key(job.kind, recurrence, first_at),
    )


RESCHEDULE = "reschedule"
"""The field that gives a job's series another rule: a ``Recurrence`` that was validated."""

_READERS: dict[str, Callable[[object], Any]] = {
    "name": read_name,
    "queue": read_plain_queue,
    "kind": lambda value: read_word(value, "kind"),
    "payload": read_payload,
    "priority": read_priority,
    "due_at": lambda value: read_instant(value, "due_at"),
    "dependencies": read_dependencies,
    "retry_policy": read_retry_policy,
    "is_paused": lambda value: read_flag(value, "is_paused"),
    "auto_remove": lambda value: read_flag(value, "auto_remove"),
    "notifies": _read_notifies,
    "label": _read_label,
}


def amend_job(
    job: Job,
    fields: Mapping[str, Any],
    now: datetime,
    *,
    dependency_statuses: Mapping[JobId, JobStatus] | None = None,
    existing_jobs: Mapping[JobId, Iterable[JobId]] | None = None,
) -> Job:
    """The job with these fields changed, under the rules for a new one.

    A fixed field may be given with its current value. With ``updated_at``, JobChangedError is
    raised when the job has changed since. Dependencies can change only while the job is PENDING;
    its status then follows from them, as for a new job. ``reschedule`` gives its series a rule.
    """
    if job.status.is_terminal:
        raise JobEndedError(job.id, job.status, job.ending)
    known = encode_job(job)
    if "updated_at" in fields:
        _check_unchanged(job, fields["updated_at"], known["updated_at"])
    amended = replace(job, **_read_changes(job, fields, known, now), updated_at=now)
    if amended.dependencies == job.dependencies:
        return amended
    if job.status is not JobStatus.PENDING:
        raise DependenciesFixedError(job.id, job.status)
    return place_job(amended, dependency_statuses, existing_jobs)


def _read_changes(
    job: Job, fields: Mapping[str, Any], known: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "kind" and value == job.kind:
            continue  # a kind taken from the name may contain other characters
        if name == RESCHEDULE and isinstance(value, Recurrence):
            changes |= reschedule(job, value, now)
        elif name in _READERS:
            changes[name] = _READERS[name](value)
        else:
            _check_same(name, value, known)
    return changes


def check_deletion(job_id: JobId, dependents: Iterable[JobId]) -> None:
    """Refuse to delete a job that others depend on, even ended ones."""
    found = sorted(dependents)
    if found:
        raise HasDependentsError(job_id, found)


def _check_unchanged(job: Job, read_at: object, updated_at: str) -> None:
    if read_instant(read_at, "updated_at") != job.updated_at:
        raise JobChangedError(job.id, updated_at)


def _check_same(name: object, value: object, known: Mapping[str, Any]) -> None:
    if not isinstance(name, str) or name not in known:
        raise InvalidJobError(str(name)[:40], "is not a field of a job")
    kept = known[name]
    if kept is not None and name.endswith("_at"):
        is_same = read_instant(value, name) == read_instant(kept, name)
    else:
        is_same = isinstance(value, bool) is isinstance(kept, bool) and value == kept
    if not is_same:
        raise InvalidJobError(name, "never changes")
