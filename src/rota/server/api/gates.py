"""Gates: quiet hours and maintenance windows."""

from collections.abc import Mapping, Set
from datetime import date
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs.fields import read_instant
from rota.jobs.misfits import IN_WORDS
from rota.ops.holds import find_hours, list_windows
from rota.policy.audit import AuditedAction, record_action
from rota.policy.gate_settings import EVERYTHING, KindNotifies, parse_quiet_hours
from rota.policy.gate_settings import Scope as GateScope
from rota.policy.gates import LONGEST_REASON, Maintenance
from rota.policy.quiet_hours import WEEKDAYS, QuietHours, format_time_of_day
from rota.rail import settings
from rota.server.api.fields import InstantText, Moment, QueueName, Why, naming_fields
from rota.server.http.route import Answer, Call, Nothing, Resource

GATES = Resource("/api/v1/gates", "gates")


TimeOfDay = Annotated[
    str,
    Meta(
        description="A time of day, such as 22:00.",
        pattern="^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$",
        extra_json_schema={"examples": ["22:00"]},
        extra={IN_WORDS: "must be a time of day, such as 22:00"},
    ),
]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Weekdays = Annotated[list[Weekday], Meta(max_length=7)]
Dates = Annotated[list[date], Meta(max_length=366)]
ReasonText = Annotated[
    str,
    Meta(
        description="The reason, for people. Jobs that wait show it.",
        max_length=LONGEST_REASON,
        pattern="^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
        extra_json_schema={"examples": ["database upgrade"]},
        extra={IN_WORDS: "must be one line of text"},
    ),
]


class QuietHoursBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours in which no job that notifies people runs. Such jobs run afterwards.

    From ``start`` to ``end`` in ``zone``, over midnight if needed, on ``weekdays``; all day on
    ``rest_days`` and ``holidays``. Some time of the week must stay open.
    """

    start: TimeOfDay
    end: TimeOfDay
    zone: Annotated[
        str, Meta(description="A time zone.", extra_json_schema={"examples": ["Europe/London"]})
    ]
    weekdays: Weekdays | None = None
    rest_days: Weekdays = []
    holidays: Dates = []
    why: Why | None = None


class QuietHoursView(msgspec.Struct, frozen=True, kw_only=True):
    """The quiet hours of the tenant. ``reopens_at`` is set while they last."""

    start: str
    end: str
    zone: str
    weekdays: tuple[str, ...]
    rest_days: tuple[str, ...]
    holidays: tuple[date, ...]
    is_quiet: bool
    reopens_at: Moment | None


class MaintenanceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A maintenance window. Without ``until`` it lasts until it is cleared.

    It replaces earlier windows; with ``is_added`` it is added to them.
    """

    from_at: InstantText | None = None
    until: InstantText | None = None
    reason: ReasonText | None = None
    is_added: bool = False


class WideMaintenanceBody(MaintenanceBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A maintenance window for a queue of all tenants or, without ``queue``, for everything."""

    queue: QueueName | None = None


class QueueChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queue. Default: everything."""

    queue: QueueName | None = None


class MaintenanceView(msgspec.Struct, frozen=True, kw_only=True):
    """A window in which nothing runs: of the tenant, of a queue, or of everything."""

    scope: Literal["tenant", "queue", "everything"]
    queue: str | None
    from_at: Moment | None
    until: Moment | None
    reason: str
    who: str
    set_at: Moment | None
    is_closed: bool


class NotifyingKind(msgspec.Struct, frozen=True, kw_only=True):
    """Whether quiet hours hold back the jobs of a kind, as an operator has set."""

    kind: str
    notifies: bool


class GatesView(msgspec.Struct, frozen=True, kw_only=True):
    """The gates that may hold back the tenant's jobs, and the kinds set to notify people or not."""

    quiet_hours: QuietHoursView | None
    maintenance: tuple[MaintenanceView, ...]
    kinds: tuple[NotifyingKind, ...] = ()


@GATES.route("GET", "", Scope.READ)
async def get_gates(call: Call[Nothing, Nothing]) -> GatesView:
    """Get the gates that hold back the jobs of your tenant, now or later."""
    now, gates = call.clock.now(), await settings.list_gates(call.store)
    hours = find_hours(gates, call.tenant)
    windows = list_windows(gates, now, call.tenant)
    return GatesView(
        quiet_hours=None if hours is None else _view_hours(hours, now),
        maintenance=tuple(_view_window(entry.scope, window, now) for entry, window in windows),
        kinds=tuple(
            NotifyingKind(kind=it.kind, notifies=it.notifies)
            for it in gates.entries
            if isinstance(it, KindNotifies)
        ),
    )


@GATES.route("PUT", "/quiet-hours", Scope.OPERATE)
async def set_quiet_hours(call: Call[QuietHoursBody, Nothing]) -> QuietHoursView:
    """Set the quiet hours of your tenant. They replace earlier ones."""
    asked = call.body
    hours = _read_hours(asked)
    details = {"start": asked.start, "end": asked.end, "zone": asked.zone}
    await _record(call, call.tenant, "set_quiet_hours", details, asked.why)
    await settings.set_quiet_hours(call.store, call.tenant, hours, clock=call.clock)
    return _view_hours(hours, call.clock.now())


@GATES.route("DELETE", "/quiet-hours", Scope.OPERATE, answers={204: None})
async def clear_quiet_hours(call: Call[Nothing, Nothing]) -> Answer:
    """Clear the quiet hours of your tenant, if there are any."""
    await _record(call, call.tenant, "set_quiet_hours", {"cleared": True})
    await settings.clear_quiet_hours(call.store, call.tenant)
    return Answer(204)


@GATES.route("PUT", "/maintenance", Scope.OPERATE)
async def set_maintenance(call: Call[MaintenanceBody, Nothing]) -> list[MaintenanceView]:
    """Hold back all jobs of your tenant for a time."""
    return await _set(call, GateScope(tenant=call.tenant))


@GATES.route("DELETE", "/maintenance", Scope.OPERATE, answers={204: None})
async def clear_maintenance(call: Call[Nothing, Nothing]) -> Answer:
    """End the maintenance of your tenant, if there is any."""
    await _record(call, call.tenant, "set_maintenance", {"isOn": False})
    await settings.clear_maintenance(call.store, GateScope(tenant=call.tenant))
    return Answer(204)


@GATES.route("PUT", "/maintenance/installation", Scope.ADMIN)
async def set_wide_maintenance(call: Call[WideMaintenanceBody, Nothing]) -> list[MaintenanceView]:
    """Hold back a queue of all tenants, or everything, for a time."""
    return await _set(call, _wide_scope(call.body.queue))


@GATES.route("DELETE", "/maintenance/installation", Scope.ADMIN, answers={204: None})
async def clear_wide_maintenance(call: Call[Nothing, QueueChoice]) -> Answer:
    """End the maintenance of a queue, or of everything, if there is any."""
    queue = call.query.queue
    await _record(call, None, "set_maintenance", {"isOn": False, "queue": queue})
    await settings.clear_maintenance(call.store, _wide_scope(queue))
    return Answer(204)


def _wide_scope(queue: str | None) -> GateScope:
    return EVERYTHING if queue is None else GateScope(queue=queue)


async def _record(
    call: Call[Any, Any],
    tenant: str | None,
    action: str,
    details: Mapping[str, Any],
    why: str | None = None,
) -> None:
    entry = AuditedAction(action=action, who=call.who, why=why, details=details)
    await record_action(call.around_of(tenant), entry)


async def _set(
    call: Call[MaintenanceBody, Nothing] | Call[WideMaintenanceBody, Nothing], scope: GateScope
) -> list[MaintenanceView]:
    clock, store = call.clock, call.store
    now = clock.now()
    window = _read_window(call.body, call.who, now)
    if window.until is not None and window.until <= now:
        raise InvalidRequestError("until", "is over already: must be later than now")
    details = {"isOn": True, "queue": scope.queue, "isAdded": call.body.is_added}
    await _record(call, scope.tenant, "set_maintenance", details, call.body.reason)
    if call.body.is_added:
        await settings.plan_maintenance(store, scope, window, now, clock=clock)
    else:
        await settings.set_maintenance(store, scope, window, clock=clock)
    windows = list_windows(await settings.list_gates(store), now)
    return [_view_window(scope, window, now) for entry, window in windows if entry.scope == scope]


def _read_window(asked: MaintenanceBody, who: str, now: Moment) -> Maintenance:
    from_at = None if asked.from_at is None else read_instant(asked.from_at, "from_at")
    until = None if asked.until is None else read_instant(asked.until, "until")
    if from_at is not None and until is not None and until <= from_at:
        raise InvalidRequestError("until", "must be later than from_at")
    reason = asked.reason or ""
    return Maintenance(from_at=from_at, until=until, reason=reason, who=who, set_at=now)


def _read_hours(asked: QuietHoursBody) -> QuietHours:
    with naming_fields("zone"):
        return parse_quiet_hours(
            asked.start,
            asked.end,
            asked.zone,
            weekdays=WEEKDAYS if asked.weekdays is None else asked.weekdays,
            rest_days=asked.rest_days,
            holidays=asked.holidays,
        )


def _view_window(scope: GateScope, window: Maintenance, now: Moment) -> MaintenanceView:
    word: Literal["tenant", "queue", "everything"] = (
        "tenant" if scope.tenant else "queue" if scope.queue else "everything"
    )
    return MaintenanceView(
        scope=word,
        queue=scope.queue,
        from_at=window.from_at,
        until=window.until,
        reason=window.reason,
        who=window.who,
        set_at=window.set_at,
        is_closed=window.from_at is None or window.from_at <= now,
    )


def _view_hours(hours: QuietHours, now: Moment) -> QuietHoursView:
    reopens_at = hours.reopens_at(now)
    return QuietHoursView(
        start=format_time_of_day(hours.start),
        end=format_time_of_day(hours.end),
        zone=str(hours.zone),
        weekdays=_name_days(hours.weekdays),
        rest_days=_name_days(hours.rest_days),
        holidays=tuple(sorted(hours.holidays)),
        is_quiet=reopens_at is not None,
        reopens_at=reopens_at,
    )


def _name_days(days: Set[int]) -> tuple[str, ...]:
    return tuple(WEEKDAYS[day] for day in sorted(days))
