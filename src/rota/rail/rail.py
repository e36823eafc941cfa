"""The rail: schedules the work of any module, for one tenant, in specification 3's words.

Errors name the argument as the caller spelled it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta, tzinfo
from math import isfinite
from secrets import randbits
from typing import Any, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from rota.clock.loop import call_in_thread
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import InvalidJobError, JobNotFoundError
from rota.jobs import CatchUp, JobId, JobRequest, Overlap, RetryPolicy, admit_job
from rota.jobs.fields import (
    RANDOM_BITS,
    make_job_id,
    read_instant,
    read_name,
    read_number,
    read_word,
    require,
    type_name,
)
from rota.jobs.states import RailWord
from rota.jobs.validation import read_recurrence
from rota.policy.audit import AuditedAction, record_action
from rota.policy.gate_settings import Scope, parse_quiet_hours
from rota.policy.gates import Maintenance
from rota.rail import settings as stored_settings
from rota.rail.jobs import (
    Preview,
    RailContext,
    RailJob,
    RailPage,
    RailSettings,
    RailStore,
    Search,
    cancel_jobs,
    find_job,
    find_live,
    list_rail_jobs,
    move_job,
    pause_series,
    preview_series,
    read_state,
    resume_series,
    view_job,
)
from rota.rail.noted_series import note_alerts
from rota.triggers.zone import Fold, Gap

Moment = datetime | str | int | float
"""An aware datetime, ISO 8601 text with an offset, or a number of seconds or milliseconds."""

MILLISECONDS_FROM = 100_000_000_000
"""Numbers from here on are milliseconds since 1970, smaller ones seconds.

As seconds this would be the year 5138, as milliseconds it is March 1973, so realistic times from
Python and from JavaScript are both read correctly.
"""

Payload: TypeAlias = Mapping[str, Any]

KEY_IN_PAYLOAD = "idempotencyKey"
BUCKET_IN_PAYLOAD = "runAtBucket"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_LOWEST_PRIORITY = 5
"""The rail counts from 1, the highest, to this; Rota has 10, 8, 6, 4 and 2 for them."""

_OUTER_NAMES = {"due_at": "run_at", "recurrence.zone": "tz", "recurrence.start": "start_from"}


class Rule(msgspec.Struct, frozen=True):
    """When a series occurs, as given to ``schedule_recurring``."""

    rrule: object = None
    cron: object = None
    interval: object = None
    tz: object = None
    start_from: object = None
    until: object = None
    count: object = None
    gap: object = None
    fold: object = None
    overlap: object = None
    catch_up: object = None
    jitter: object = None
    alert_after: object = None

    @property
    def texts(self) -> list[str]:
        """The given texts, of which exactly one must be set."""
        return [name for name in ("rrule", "cron", "interval") if getattr(self, name) is not None]


class Asked(NamedTuple):
    """The arguments common to both kinds of schedule."""

    kind: object
    payload: object
    priority: object = 3
    idempotency_key: object = None
    queue: object = None
    retry_policy: RetryPolicy | Mapping[str, Any] | None = None
    notifies: bool | None = None
    label: str | None = None


class Rail:
    """Schedules and manages the jobs of one tenant. It never sees another tenant's jobs.

    All arguments are checked first: InvalidJobError names the argument and the reason. ``who`` and
    ``why`` go into the audit log.
    """

    def __init__(
        self,
        store: RailStore,
        tenant: str = "default",
        *,
        clock: Clock | None = None,
        settings: RailSettings | None = None,
        draw_bits: Callable[[int], int] = randbits,
    ) -> None:
        self._around = RailContext(
            store,
            read_tenant(tenant),
            clock or SystemClock(),
            settings or RailSettings(),
            draw_bits,
        )

    async def schedule_once(
        self,
        kind: str,
        payload: Payload,
        *,
        run_at: Moment,
        priority: int = 3,
        idempotency_key: str | None = None,
        queue: str | None = None,
        retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
        notifies: bool | None = None,
        label: str | None = None,
        within: Any = None,
    ) -> JobId:
        """Schedule one job and return its id.

        With an ``idempotency_key``, given here or in the payload, an existing job of the same kind
        and key is returned instead; DuplicateJobError is raised when its payload differs.
        ``within`` is the caller's own connection with an open transaction: the job is created when
        it commits. Quiet hours hold the job back if it ``notifies`` people; left out, its kind
        decides. With a ``label`` it runs only on workers that offer this version label.
        """
        asked = Asked(
            kind, payload, priority, idempotency_key, queue, retry_policy, notifies, label
        )
        with outer_names():
            request = read_once(asked, run_at, self._around.settings)
            return await self._insert(request, within)

    async def schedule_recurring(
        self,
        kind: str,
        payload: Payload,
        *,
        rrule: str | None = None,
        cron: str | None = None,
        interval: str | timedelta | None = None,
        tz: str | ZoneInfo | None = None,
        start_from: Moment | None = None,
        until: Moment | None = None,
        count: int | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
        overlap: Overlap = "skip",
        catch_up: CatchUp = "once",
        jitter: str | timedelta | None = None,
        alert_after: str | timedelta | None = None,
        priority: int = 3,
        idempotency_key: str | None = None,
        queue: str | None = None,
        retry_policy: RetryPolicy | Mapping[str, Any] | None = None,
        notifies: bool | None = None,
        label: str | None = None,
        within: Any = None,
    ) -> JobId:
        """Schedule a series and return the id of its first job, which also names the series.

        Exactly one of ``rrule``, ``cron`` and ``interval`` says when, in the zone ``tz``. The first
        occurrence is at or after ``start_from``, which defaults to the rule's DTSTART or now.
        ``catch_up`` says what happens to occurrences that no worker could run in time; ``jitter``
        spreads the starts. With ``alert_after`` there is an alert when no occurrence has succeeded
        that long after one was due. Without an ``idempotency_key`` each call creates its own
        series.
        """
        limits = {"until": until, "count": count, "overlap": overlap}
        choices = {"gap": gap, "fold": fold, "catch_up": catch_up, "jitter": jitter}
        choices["alert_after"] = alert_after
        rule = Rule(rrule, cron, interval, tz, start_from, **limits, **choices)
        asked = Asked(
            kind, payload, priority, idempotency_key, queue, retry_policy, notifies, label
        )
        with outer_names(rule):
            request = read_series(asked, rule, self._around.settings)
            return await self._insert(request, within)

    async def get(self, job_id: JobId) -> RailJob:
        """The job as it is now. Raises JobNotFoundError when the tenant has no job with that id."""
        job = await find_job(self._around, job_id)
        if job is None:
            raise JobNotFoundError(str(job_id))
        return view_job(job)

    async def list(
        self,
        *,
        state: RailWord | None = None,
        kind: str | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> RailPage:
        """A page of the tenant's jobs, newest first."""
        search = Search(
            state=read_state(state), accepts=lambda job: kind is None or job.kind == kind
        )
        return await list_rail_jobs(self._around, search, cursor, limit)

    async def cancel(
        self,
        job_id: JobId,
        *,
        ends_series: bool = True,
        who: str | None = None,
        why: str | None = None,
    ) -> RailJob:
        """Cancel a job that has not ended, and its series; any job id of the series will do.

        With ``ends_series=False`` only the current occurrence is cancelled. Raises JobEndedError
        when nothing is left to cancel.
        """
        await self._announce("cancel", job_id, who, why, endsSeries=ends_series)
        reason = "cancelled" + (f" by {who}" if who else "") + (f": {why}" if why else "")
        cancelled = await cancel_jobs(self._around, job_id, reason, ends_series=ends_series)
        return view_job(cancelled[-1])

    async def reschedule(
        self, job_id: JobId, run_at: Moment, *, who: str | None = None, why: str | None = None
    ) -> RailJob:
        """Move a waiting job to another time. In a series this moves only the next occurrence."""
        due_at = read_moment(run_at, "run_at")
        await self._announce("reschedule", job_id, who, why, runAt=due_at.isoformat())
        return view_job(await move_job(self._around, job_id, due_at))

    async def run_now(
        self, job_id: JobId, *, who: str | None = None, why: str | None = None
    ) -> RailJob:
        """Run a waiting job at once. A series continues as if the job had waited."""
        await self._announce("run_now", job_id, who, why)
        return view_job(await move_job(self._around, job_id, self._around.clock.now()))

    async def pause(
        self, job_id: JobId, *, who: str | None = None, why: str | None = None
    ) -> RailJob:
        """Pause a series. A running occurrence finishes; no other starts."""
        await self._announce("pause", job_id, who, why)
        return view_job(await pause_series(self._around, job_id, who=who or "", why=why or ""))

    async def resume(
        self,
        job_id: JobId,
        *,
        catch_up: bool = False,
        who: str | None = None,
        why: str | None = None,
    ) -> RailJob:
        """Resume a paused series with its next occurrence.

        Occurrences missed during the pause are skipped; with ``catch_up`` the first of them runs
        now.
        """
        await self._announce("resume", job_id, who, why, catchUp=catch_up)
        return view_job(await resume_series(self._around, job_id, catch_up=catch_up))

    async def preview(
        self, job_id: JobId | None = None, *, occurrence_count: int = 5, **rule: Any
    ) -> Preview:
        """The next occurrences of a series or a rule, with notes at DST changes.

        A rule is given by the arguments of ``schedule_recurring`` that say when.
        """
        if job_id is not None:
            job = (await find_live(self._around, job_id))[-1]
            if job.recurrence is None:
                raise InvalidJobError("job_id", "must name a series, and this job does not recur")
            recurrence, start = job.recurrence, job.occurrence_at or job.due_at
        else:
            asked = Rule(**rule)
            with outer_names(asked):
                recurrence, _ = read_recurrence(read_rule(asked), self._around.clock.now())
            start = recurrence.start
        return await call_in_thread(lambda: preview_series(recurrence, start, occurrence_count))

    async def set_quiet_hours(
        self,
        start: str | time | None = None,
        end: str | time | None = None,
        tz: str | tzinfo | None = None,
        *,
        who: str | None = None,
        why: str | None = None,
        **more: Any,
    ) -> None:
        """Hold back notifications between these times of day. None clears the quiet hours.

        ``more`` is passed to ``rota.gates.parse_quiet_hours``: weekdays, rest days, holidays.
        """
        store, tenant = self._around.store, self._around.tenant
        if start is None and end is None:
            await self._record("set_quiet_hours", None, who, why, cleared=True)
            return await stored_settings.clear_quiet_hours(store, tenant)
        for field, value in (("start", start), ("end", end), ("tz", tz)):
            if value is None:
                raise InvalidJobError(field, "is missing")
        hours = parse_quiet_hours(start or "", end or "", tz or "", **more)
        named = {"start": str(start), "end": str(end), "zone": str(tz)}
        await self._record("set_quiet_hours", None, who, why, **named)
        clock = self._around.clock
        return await stored_settings.set_quiet_hours(store, tenant, hours, clock=clock)

    async def set_maintenance(
        self,
        is_on: bool,  # noqa: FBT001 - fixed: rail.set_maintenance(True, …)
        *,
        until: datetime | None = None,
        reason: str = "",
        who: str = "",
    ) -> None:
        """Hold back all jobs of the tenant, until then or until maintenance is switched off."""
        store, scope = self._around.store, Scope(tenant=self._around.tenant)
        if not is_on:
            await self._record("set_maintenance", None, who or None, reason, isOn=False)
            return await stored_settings.clear_maintenance(store, scope)
        now = self._around.clock.now()
        window = Maintenance(until=until, reason=reason, who=who, set_at=now)
        await self._record("set_maintenance", None, who or None, reason, isOn=True)
        clock = self._around.clock
        return await stored_settings.set_maintenance(store, scope, window, clock=clock)

    async def _insert(self, request: JobRequest, within: Any) -> JobId:
        around = self._around
        now = around.clock.now()
        job_id = make_job_id(now, around.draw_bits(RANDOM_BITS))
        job = admit_job(request, job_id=job_id, now=now, tenant=around.tenant)
        if job.recurrence is not None:
            await note_alerts(around.store, [job])
        if within is None:
            (inserted,) = await around.store.insert([job], now)
        else:
            (inserted,) = await around.store.insert_within(within, [job], now)
        return inserted.job.id

    async def _announce(self, action: str, job_id: JobId, *by: str | None, **details: Any) -> None:
        """Record an action on a job or series that has not ended, before it happens."""
        await find_live(self._around, job_id)
        await self._record(action, job_id, *by, **details)

    async def _record(
        self, action: str, job_id: JobId | None, who: str | None, why: str | None, **details: Any
    ) -> None:
        job_ids = () if job_id is None else (job_id,)
        act = AuditedAction(action=action, who=who, why=why, job_ids=job_ids, details=details)
        await record_action(self._around, act)


def read_tenant(value: object) -> str:
    return read_word(value, "tenant")


def read_moment(value: object, field: str) -> datetime:
    """The instant in UTC."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return read_instant(value, field)
    if not isfinite(value) or value < 0:
        raise InvalidJobError(field, "must be an instant from 1970 on, and a number must be finite")
    try:
        return _EPOCH + value * (_MILLISECOND if value >= MILLISECONDS_FROM else _SECOND)
    except OverflowError as error:
        raise InvalidJobError(field, "must be an instant of the calendar") from error


def read_once(asked: Asked, run_at: object, settings: RailSettings) -> JobRequest:
    """A request for one job."""
    request = _read_common(asked, settings)
    return msgspec.structs.replace(
        request,
        due_at=read_moment(run_at, "run_at"),
        occurrence=_from_payload(request.payload, BUCKET_IN_PAYLOAD),
    )


def read_series(asked: Asked, rule: Rule, settings: RailSettings) -> JobRequest:
    """A request for the first job of a series."""
    request = _read_common(asked, settings)
    if BUCKET_IN_PAYLOAD in request.payload:
        field = f"payload.{BUCKET_IN_PAYLOAD}"
        raise InvalidJobError(field, "cannot be given for a series: each occurrence has its own")
    return msgspec.structs.replace(request, recurrence=read_rule(rule))


def read_rule(rule: Rule) -> Any:
    """The fields of a ``Recurrence``, after the checks that only this entrance needs."""
    if len(rule.texts) != 1:
        raise InvalidJobError("rrule", "or cron or interval must be given, and only one of them")
    fields = msgspec.structs.asdict(rule)
    fields["interval"] = _read_duration(rule.interval, "interval")
    fields["zone"] = _read_zone(fields.pop("tz"), is_needed=rule.interval is None)
    start = fields.pop("start_from")
    fields["start"] = None if start is None else read_moment(start, "start_from")
    fields["until"] = None if rule.until is None else read_moment(rule.until, "until")
    fields["jitter"] = _read_duration(rule.jitter, "jitter")
    fields["alert_after"] = _read_duration(rule.alert_after, "alert_after")
    return fields


@contextmanager
def outer_names(rule: Rule | None = None) -> Iterator[None]:
    """Within the context, errors name fields as callers of the rail know them."""
    try:
        yield
    except InvalidJobError as error:
        named = _OUTER_NAMES.get(error.field, error.field.removeprefix("recurrence."))
        if named == "recurrence" and rule is not None:
            named = rule.texts[0]
        if named == error.field:
            raise
        raise InvalidJobError(named, error.reason) from error


def _read_common(asked: Asked, settings: RailSettings) -> JobRequest:
    payload: Any = asked.payload
    if not isinstance(payload, Mapping):
        raise InvalidJobError("payload", f"must be a JSON object, got {type_name(payload)}")
    kind = read_word(asked.kind, "kind")
    priority = 12 - 2 * read_number(asked.priority, "priority", 1, _LOWEST_PRIORITY)
    key = inner = _from_payload(payload, KEY_IN_PAYLOAD)
    if asked.idempotency_key is not None:
        key = read_name(asked.idempotency_key, "idempotency_key")
        if inner not in (None, key):
            raise InvalidJobError("idempotency_key", f"must be the one in payload.{KEY_IN_PAYLOAD}")
    policy: Any = settings.retry_policy if asked.retry_policy is None else asked.retry_policy
    queue: Any = settings.queue if asked.queue is None else asked.queue
    return JobRequest(
        name=kind,
        kind=kind,
        queue=queue,
        payload=dict(payload),
        priority=priority,
        retry_policy=policy,
        notifies=asked.notifies,
        label=asked.label,
        idempotency_key=key,
    )


def _from_payload(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return None if value is None else read_name(value, f"payload.{name}")


def _read_duration(value: object, field: str) -> object:
    """A timedelta as text. Other values are validated later."""
    if not isinstance(value, timedelta):
        return value
    if value < _SECOND or value % _SECOND:
        raise InvalidJobError(field, f"must be whole seconds, at least one, got {value}")
    return f"{value // _SECOND}s"


def _read_zone(value: object, *, is_needed: bool) -> str:
    if value is None:
        if is_needed:
            raise InvalidJobError("tz", "is missing: a time zone such as Europe/London")
        return "UTC"
    return value.key if isinstance(value, ZoneInfo) else require(str, value, "tz", "a time zone")
