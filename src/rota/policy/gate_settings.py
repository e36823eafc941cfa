"""The stored gate settings: quiet hours and maintenance windows as one gate and as documents."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, tzinfo
from typing import TypeAlias
from zoneinfo import ZoneInfo

import msgspec

from rota.errors import InvalidInputError, invalid
from rota.jobs.fields import read_flag, read_queue, read_word
from rota.jobs.record import Instant, Job
from rota.policy.gates import OPEN, Gate, Maintenance, Verdict, first_open, require
from rota.policy.quiet_hours import (
    EVERY_DAY,
    MIDNIGHT,
    WEEKDAYS,
    QuietHours,
    QuietWindow,
    format_time_of_day,
    parse_time_of_day,
    read_dates,
    read_weekdays,
)
from rota.triggers.zone import load_zone


class Scope(msgspec.Struct, frozen=True):
    """The jobs a maintenance window applies to: a tenant's, a queue's or, with neither, all."""

    tenant: str | None = None
    queue: str | None = None

    def __post_init__(self) -> None:
        if self.tenant is not None and self.queue is not None:
            raise invalid("queue", "cannot be given beside a tenant: name one of them")
        if self.tenant is not None:
            read_word(self.tenant, "tenant")
        if self.queue is not None:
            read_queue(self.queue)

    def __str__(self) -> str:
        if self.tenant is not None:
            return f"tenant {self.tenant}"
        return "everything" if self.queue is None else f"queue {self.queue}"


EVERYTHING = Scope()


class TenantQuietHours(msgspec.Struct, frozen=True):
    """The quiet hours of a tenant."""

    tenant: str
    hours: QuietHours

    def __post_init__(self) -> None:
        read_word(self.tenant, "tenant")
        require(QuietHours, self.hours, "hours", "QuietHours")


class ScopedMaintenance(msgspec.Struct, frozen=True):
    """The maintenance windows of a scope."""

    scope: Scope
    windows: tuple[Maintenance, ...]


class KindNotifies(msgspec.Struct, frozen=True):
    """Whether jobs of a kind notify people, whatever workers say about the kind."""

    kind: str
    notifies: bool

    def __post_init__(self) -> None:
        read_word(self.kind, "kind")
        read_flag(self.notifies, "notifies")


Entry: TypeAlias = TenantQuietHours | ScopedMaintenance | KindNotifies


class GateSettings(msgspec.Struct, frozen=True):
    """A gate made of stored entries. Every entry that applies to a job judges it."""

    quiet_hours: Mapping[str, QuietHours]
    everywhere: tuple[Maintenance, ...]
    by_tenant: Mapping[str, tuple[Maintenance, ...]]
    by_queue: Mapping[str, tuple[Maintenance, ...]]
    kinds: Mapping[str, bool] = {}

    def notifies(self, job: Job, *, declared: bool) -> bool:
        """Whether the job notifies people: as the job says, else its kind, else its worker."""
        return self.kinds.get(job.kind, declared) if job.notifies is None else job.notifies

    @property
    def is_open_to_all(self) -> bool:
        """Whether no entry can hold a job back."""
        return not (self.everywhere or self.by_tenant or self.by_queue or self.quiet_hours)

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """Open unless an entry that applies to the job is closed."""
        if self.is_open_to_all:
            return OPEN
        gates = self.gates_for(job, notifies=notifies)
        return first_open(gates, job, now, notifies=notifies) if gates else OPEN

    def gates_for(self, job: Job, *, notifies: bool) -> list[Gate]:
        """The entries that apply to the job, open or closed."""
        gates: list[Gate] = [*self.everywhere]
        gates += self.by_tenant.get(job.tenant, ())
        gates += self.by_queue.get(job.queue, ())
        is_loud = self.notifies(job, declared=notifies)
        hours = self.quiet_hours.get(job.tenant) if is_loud else None
        return gates if hours is None else [*gates, hours]


def make_gate_settings(entries: Iterable[Entry]) -> GateSettings:
    """The gate these entries form. The last entry for a tenant or scope wins."""
    hours = dict[str, QuietHours]()
    closures = dict[Scope, tuple[Maintenance, ...]]()
    kinds = dict[str, bool]()
    for entry in entries:
        if isinstance(entry, TenantQuietHours):
            hours[entry.tenant] = entry.hours
        elif isinstance(entry, KindNotifies):
            kinds[entry.kind] = entry.notifies
        else:
            closures[entry.scope] = entry.windows
    return GateSettings(
        quiet_hours=hours,
        everywhere=closures.get(EVERYTHING, ()),
        by_tenant={scope.tenant: each for scope, each in closures.items() if scope.tenant},
        by_queue={scope.queue: each for scope, each in closures.items() if scope.queue},
        kinds=kinds,
    )


GATES = "gates"
"""The collection of the documents."""

GATE_CHANGES = "gate_changes"
"""The collection of the one document whose version grows with every gate change."""

LATEST_CHANGE = "latest"
"""The key of that document, and of its counterpart for limits."""

_QUIET_HOURS = "quiet_hours"
_MAINTENANCE = "maintenance"
_KIND = "kind"


class Damage(msgspec.Struct, frozen=True):
    """An unreadable document. It is left alone; the other entries still apply."""

    key: str
    reason: str


class _Window(msgspec.Struct, frozen=True):
    start: str
    end: str
    weekdays: tuple[str, ...] = WEEKDAYS


class _Hours(msgspec.Struct, frozen=True):
    zone: str
    windows: tuple[_Window, ...] = ()
    rest_days: tuple[str, ...] = ()
    holidays: tuple[date, ...] = ()


class _Closure(msgspec.Struct, frozen=True, omit_defaults=True):
    from_at: Instant | None = None
    until: Instant | None = None
    reason: str = ""
    who: str = ""
    set_at: Instant | None = None


class _Closures(msgspec.Struct, frozen=True):
    windows: tuple[_Closure, ...]


class _Kind(msgspec.Struct, frozen=True):
    notifies: bool


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
    """Parse quiet hours as people write them: times like ``22:00``, a zone by its IANA name.

    Weekdays are ``mon`` to ``sun``; dates are written like ``2026-12-25``.
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
    """A list of anything. QuietHours validates its items."""
    if not isinstance(windows, Iterable):
        raise invalid("more", f"must be a list of windows, got {windows!r:.40}")
    return tuple(windows)


def quiet_hours_key(tenant: str) -> str:
    return f"{_QUIET_HOURS}/{tenant}"


def maintenance_key(scope: Scope) -> str:
    if scope.tenant is not None:
        return f"{_MAINTENANCE}/tenant/{scope.tenant}"
    return _MAINTENANCE if scope.queue is None else f"{_MAINTENANCE}/queue/{scope.queue}"


def kind_key(kind: str) -> str:
    return f"{_KIND}/{kind}"


def key_of(entry: Entry) -> str:
    if isinstance(entry, TenantQuietHours):
        return quiet_hours_key(entry.tenant)
    if isinstance(entry, KindNotifies):
        return kind_key(entry.kind)
    return maintenance_key(entry.scope)


def encode_entry(entry: Entry) -> bytes:
    """The body of the document. Quiet hours need a zone with an IANA name."""
    if isinstance(entry, TenantQuietHours):
        return msgspec.json.encode(_hours_record(entry.hours))
    if isinstance(entry, KindNotifies):
        return msgspec.json.encode(_Kind(notifies=entry.notifies))
    closures = tuple(
        _Closure(**{name: getattr(each, name) for name in _Closure.__struct_fields__})
        for each in entry.windows
    )
    return msgspec.json.encode(_Closures(windows=closures))


def decode_entry(key: str, body: bytes) -> Entry | Damage:
    """The entry that ``encode_entry`` wrote under ``key_of``, or what is wrong with it."""
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
        case ["kind", kind]:
            return KindNotifies(kind, msgspec.json.decode(body, type=_Kind).notifies)
        case _:
            raise invalid("key", "does not name a gate")


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
    return tuple(Maintenance(**msgspec.structs.asdict(each)) for each in record.windows)


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
        raise invalid("zone", f"must be a zone with an IANA name to be kept, got {zone!r:.40}")
    return name
