"""The entries of a board as documents, and back.

The key says what an entry is about, the body is JSON that a person can read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, time, tzinfo
from zoneinfo import ZoneInfo

import msgspec

from rota.errors import InvalidInputError
from rota.gates.board import EVERYTHING, Entry, Scope, ScopedMaintenance, TenantQuietHours
from rota.gates.maintenance import Maintenance
from rota.gates.quiet_hours import QuietHours
from rota.gates.window import (
    EVERY_DAY,
    MIDNIGHT,
    WEEKDAYS,
    QuietWindow,
    format_time_of_day,
    parse_time_of_day,
    read_dates,
    read_weekdays,
    refuse,
)
from rota.jobs.record import Instant
from rota.triggers.zone import load_zone

GATES = "gates"
"""The collection of the documents."""

_QUIET_HOURS = "quiet_hours"
_MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True)
class Damage:
    """A document that is no entry. It is left alone, and the others hold."""

    key: str
    reason: str


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    start: str
    end: str
    weekdays: tuple[str, ...] = WEEKDAYS


class _Hours(msgspec.Struct, frozen=True, kw_only=True):
    zone: str
    windows: tuple[_Window, ...] = ()
    rest_days: tuple[str, ...] = ()
    holidays: tuple[date, ...] = ()


class _Closure(msgspec.Struct, frozen=True, kw_only=True):
    from_at: Instant | None = None
    until: Instant | None = None
    reason: str = ""
    who: str = ""


class _Closures(msgspec.Struct, frozen=True, kw_only=True):
    windows: tuple[_Closure, ...]


def parse_quiet_hours(
    start: str | time,
    end: str | time,
    tz: str | tzinfo,
    *,
    weekdays: Iterable[int | str] = EVERY_DAY,
    more: Iterable[QuietWindow] = (),
    rest_days: Iterable[int | str] = (),
    holidays: Iterable[date | str] = (),
) -> QuietHours:
    """Quiet hours as people write them: times such as ``22:00``, a zone by its IANA name.

    Weekdays may be named, ``mon`` to ``sun``, and dates be written as ``2026-12-25``.
    """
    return QuietHours(
        start=parse_time_of_day(start, "start"),
        end=parse_time_of_day(end, "end"),
        zone=tz if isinstance(tz, tzinfo) else load_zone(tz),
        weekdays=read_weekdays(weekdays, "weekdays"),
        more=_read_windows(more),
        rest_days=read_weekdays(rest_days, "rest_days"),
        holidays=read_dates(holidays, "holidays"),
    )


def _read_windows(windows: object) -> tuple[QuietWindow, ...]:
    """A list of anything: what is in it is looked at by QuietHours."""
    if not isinstance(windows, Iterable):
        raise refuse("more", f"must be a list of windows, got {windows!r:.40}")
    return tuple(windows)


def quiet_hours_key(tenant: str) -> str:
    return f"{_QUIET_HOURS}/{tenant}"


def maintenance_key(scope: Scope) -> str:
    if scope.tenant is not None:
        return f"{_MAINTENANCE}/tenant/{scope.tenant}"
    return _MAINTENANCE if scope.queue is None else f"{_MAINTENANCE}/queue/{scope.queue}"


def key_of(entry: Entry) -> str:
    if isinstance(entry, TenantQuietHours):
        return quiet_hours_key(entry.tenant)
    return maintenance_key(entry.scope)


def encode_entry(entry: Entry) -> bytes:
    """The body of the document; quiet hours need a zone with an IANA name to be kept."""
    if isinstance(entry, TenantQuietHours):
        return msgspec.json.encode(_hours_record(entry.hours))
    closures = tuple(
        _Closure(from_at=each.from_at, until=each.until, reason=each.reason, who=each.who)
        for each in entry.windows
    )
    return msgspec.json.encode(_Closures(windows=closures))


def decode_entry(key: str, body: bytes) -> Entry | Damage:
    """The entry that ``encode_entry`` wrote under ``key_of`` it, or what is wrong with it."""
    try:
        return _decode(key.split("/"), body)
    except (msgspec.DecodeError, InvalidInputError, UnicodeDecodeError) as error:
        return Damage(key, str(error))


def _decode(key: list[str], body: bytes) -> Entry:
    match key:
        case ["quiet_hours", tenant]:
            hours = _read_hours(msgspec.json.decode(body, type=_Hours))
            return TenantQuietHours(tenant, hours)
        case ["maintenance"]:
            return ScopedMaintenance(EVERYTHING, _read_closures(body))
        case ["maintenance", "tenant", tenant]:
            return ScopedMaintenance(Scope(tenant=tenant), _read_closures(body))
        case ["maintenance", "queue", queue]:
            return ScopedMaintenance(Scope(queue=queue), _read_closures(body))
        case _:
            raise refuse("key", "names no gate that is known")


def _read_hours(record: _Hours) -> QuietHours:
    windows = [
        QuietWindow(
            parse_time_of_day(each.start, f"windows[{index}].start"),
            parse_time_of_day(each.end, f"windows[{index}].end"),
            read_weekdays(each.weekdays, f"windows[{index}].weekdays"),
        )
        for index, each in enumerate(record.windows)
    ]
    first, *more = windows or [QuietWindow(MIDNIGHT, MIDNIGHT)]
    return parse_quiet_hours(
        first.start,
        first.end,
        record.zone,
        weekdays=first.weekdays,
        more=more,
        rest_days=record.rest_days,
        holidays=record.holidays,
    )


def _read_closures(body: bytes) -> tuple[Maintenance, ...]:
    record = msgspec.json.decode(body, type=_Closures)
    return tuple(
        Maintenance(from_at=each.from_at, until=each.until, reason=each.reason, who=each.who)
        for each in record.windows
    )


def _hours_record(hours: QuietHours) -> _Hours:
    return _Hours(
        zone=_zone_name(hours.zone),
        windows=tuple(
            _Window(
                start=format_time_of_day(each.start),
                end=format_time_of_day(each.end),
                weekdays=_names_of(each.weekdays),
            )
            for each in hours.windows
        ),
        rest_days=_names_of(hours.rest_days),
        holidays=tuple(sorted(hours.holidays)),
    )


def _names_of(weekdays: Iterable[int]) -> tuple[str, ...]:
    return tuple(WEEKDAYS[day] for day in sorted(weekdays))


def _zone_name(zone: tzinfo) -> str:
    if zone is UTC:
        return "UTC"
    name = zone.key if isinstance(zone, ZoneInfo) else None
    if name is None:
        raise refuse("zone", f"must be a zone with an IANA name to be kept, got {zone!r:.40}")
    return name
