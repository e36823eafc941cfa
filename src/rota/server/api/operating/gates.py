"""Gates of a tenant: quiet hours, maintenance, and what holds for it at the moment."""

from collections.abc import Set
from datetime import date
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidInputError, InvalidRequestError
from rota.jobs.misfits import IN_WORDS
from rota.policy.gate_settings import ScopedMaintenance, TenantQuietHours, parse_quiet_hours
from rota.policy.quiet_hours import QuietHours
from rota.policy.windows import WEEKDAYS, format_time_of_day
from rota.rail import settings as stored_settings
from rota.rail.audit import AuditedAction, record_action
from rota.server.api.operating.word import Why, surroundings_of
from rota.server.api.shapes.words import Moment
from rota.server.routing.route import Answer, Call, Nothing, Route

GATES = "/api/v1/gates"
QUIET_HOURS = "/api/v1/gates/quiet-hours"

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


class QuietHoursBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours in which nothing that notifies people is run; it is run when they are over.

    From ``start`` to ``end`` on the clock of ``zone``, over midnight if need be, on ``weekdays``;
    all day long on ``rest_days`` and ``holidays``. Some moment of the week must be left open.
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
    """The quiet hours of the tenant; ``reopens_at`` is there while it is quiet."""

    start: str
    end: str
    zone: str
    weekdays: tuple[str, ...]
    rest_days: tuple[str, ...]
    holidays: tuple[date, ...]
    is_quiet: bool
    reopens_at: Moment | None


class MaintenanceView(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which nothing runs: of the tenant, of a queue, or of all."""

    scope: Literal["tenant", "queue", "everything"]
    queue: str | None
    from_at: Moment | None
    until: Moment | None
    reason: str
    who: str
    is_closed: bool


class GatesView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may hold back the tenant's jobs for a while."""

    quiet_hours: QuietHoursView | None
    maintenance: tuple[MaintenanceView, ...]


async def get_gates(call: Call[Nothing, Nothing]) -> GatesView:
    """Get what holds back the jobs of your tenant, now or later."""
    now, tenant = call.around.clock.now(), call.caller.tenant
    hours: QuietHoursView | None = None
    closures: list[MaintenanceView] = []
    for entry in (await stored_settings.list_gates(call.around.store)).entries:
        if isinstance(entry, TenantQuietHours):
            if entry.tenant == tenant:
                hours = _view_hours(entry.hours, now)
        elif entry.scope.tenant in (None, tenant):
            closures += view_maintenance(entry, now)
    return GatesView(quiet_hours=hours, maintenance=tuple(closures))


async def set_quiet_hours(call: Call[QuietHoursBody, Nothing]) -> QuietHoursView:
    """Set the quiet hours of your tenant, in the place of those it has."""
    asked, tenant = call.body, call.caller.tenant
    hours = _read_hours(asked)
    details = {"start": asked.start, "end": asked.end, "zone": asked.zone}
    act = AuditedAction(
        action="set_quiet_hours", who=call.caller.who, why=asked.why, details=details
    )
    await record_action(surroundings_of(call), act)
    await stored_settings.set_quiet_hours(call.around.store, tenant, hours)
    return _view_hours(hours, call.around.clock.now())


async def clear_quiet_hours(call: Call[Nothing, Nothing]) -> Answer:
    """Clear the quiet hours of your tenant; it is no error if there are none."""
    act = AuditedAction(action="set_quiet_hours", who=call.caller.who, details={"cleared": True})
    await record_action(surroundings_of(call), act)
    await stored_settings.clear_quiet_hours(call.around.store, call.caller.tenant)
    return Answer(204)


def view_maintenance(entry: ScopedMaintenance, now: Moment) -> list[MaintenanceView]:
    """The windows of a scope that are not over."""
    scope = entry.scope
    word: Literal["tenant", "queue", "everything"] = (
        "tenant" if scope.tenant else "queue" if scope.queue else "everything"
    )
    return [
        MaintenanceView(
            scope=word,
            queue=scope.queue,
            from_at=each.from_at,
            until=each.until,
            reason=each.reason,
            who=each.who,
            is_closed=each.from_at is None or each.from_at <= now,
        )
        for each in entry.windows
        if not each.is_over(now)
    ]


def _read_hours(asked: QuietHoursBody) -> QuietHours:
    try:
        return parse_quiet_hours(
            asked.start,
            asked.end,
            asked.zone,
            weekdays=WEEKDAYS if asked.weekdays is None else asked.weekdays,
            rest_days=asked.rest_days,
            holidays=asked.holidays,
        )
    except InvalidInputError as error:
        field = str(error.details.get("field", "zone"))
        raise InvalidRequestError(field, error.details.get("reason") or error.message) from error


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


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=GATES,
        handler=get_gates,
        scope=Scope.READ,
        tag="gates",
        answers={200: GatesView},
    ),
    Route(
        method="PUT",
        path=QUIET_HOURS,
        handler=set_quiet_hours,
        scope=Scope.OPERATE,
        tag="gates",
        body=QuietHoursBody,
        answers={200: QuietHoursView},
    ),
    Route(
        method="DELETE",
        path=QUIET_HOURS,
        handler=clear_quiet_hours,
        scope=Scope.OPERATE,
        tag="gates",
        answers={204: None},
    ),
)
