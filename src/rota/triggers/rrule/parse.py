"""Parses RFC 5545 text: one RRULE, and the DTSTART, RDATE and EXDATE beside it."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any, get_args

from rota.errors import InvalidInputError, InvalidRecurrenceRuleError
from rota.triggers.rrule.grammar import (
    Fragment,
    Property,
    read_moment,
    read_number,
    read_numbers,
    read_ordinals,
    read_properties,
    read_weekday,
    read_weekdays,
)
from rota.triggers.rrule.parts import (
    FIRST_YEAR,
    LAST_YEAR,
    Frame,
    Frequency,
    Parts,
    as_wall,
    find_conflict,
    instant_seconds,
    wall_seconds,
)
from rota.triggers.rrule.rule import Exclusions, RecurrenceRule
from rota.triggers.zone import Fold, Gap, instants_of, wall_time

MAX_INTERVAL = 100_000_000
MAX_COUNT = 100_000
MAX_DATES = 1_000
"""The maximum number of RDATE values, and of EXDATE values."""

Moment = date | datetime

_GAPS: tuple[str, ...] = get_args(Gap)
_FOLDS: tuple[str, ...] = get_args(Fold)


def parse_rrule(
    text: str,
    *,
    zone: tzinfo,
    start: datetime | None = None,
    gap: Gap = "shift",
    fold: Fold = "first",
) -> RecurrenceRule:
    """The rule in ``text``, in ``zone``, from ``start`` on.

    ``text`` is a bare rule ("FREQ=DAILY;BYHOUR=9") or lines that begin with RRULE, DTSTART, RDATE
    or EXDATE. ``start`` is DTSTART: an aware instant, or a naive wall time in ``zone``. It may be
    left out when the text has a DTSTART; when both are given they must agree.

    Raises InvalidRecurrenceRuleError, which names the part, for an invalid text, and
    InvalidInputError for the other arguments.
    """
    _check_choices(zone, gap, fold)
    found = _Lines(text, zone)
    parts = _read_rule(found.rule)
    frame = _make_frame(found, start, gap, fold)
    added = tuple(sorted(set(_added_instants(found, frame))))
    return RecurrenceRule(text, parts, frame, added, _read_exclusions(found, frame))


class _Lines:
    """The properties of a text, sorted by what they are."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        self.zone = zone
        self.added: list[Property] = []
        self.excluded: list[Property] = []
        self.start: Property | None = None
        rule: Property | None = None
        for line in read_properties(text):
            if line.name == "RRULE":
                rule = _only(rule, line)
            elif line.name == "DTSTART":
                self.start = _only(self.start, line)
            else:
                self._list_of(line).append(line)
        if rule is None:
            raise InvalidRecurrenceRuleError(text, "RRULE", "is missing")
        self.rule = rule

    def _list_of(self, line: Property) -> list[Property]:
        if line.name == "RDATE":
            return self.added
        if line.name == "EXDATE":
            return self.excluded
        raise line.line.refuse(line.name, "is none of RRULE, DTSTART, RDATE and EXDATE")

    def dates_of(self, lines: list[Property]) -> Iterator[Moment]:
        """The values of these lines, the wall times among them being in the rule's zone."""
        for line in lines:
            yield from self.read_dates(line)

    def read_dates(self, line: Property) -> list[Moment]:
        self._check_parameters(line)
        items = line.value.split(",")
        if len(items) > MAX_DATES:
            raise line.value.refuse(line.name, f"names {len(items)} dates, more than {MAX_DATES}")
        return [_read_date(item, line.name) for item in items]

    def _check_parameters(self, line: Property) -> None:
        for name, value in line.parameters:
            if name == "TZID":
                if value.text != str(self.zone):
                    reason = f'has TZID "{value.text}" where the rule has the zone {self.zone}'
                    raise value.refuse(line.name, reason)
            elif name != "VALUE" or value.text.upper() not in {"DATE", "DATE-TIME"}:
                raise value.refuse(line.name, f'cannot have {name} "{value.text}"')


def _only(known: Property | None, line: Property) -> Property:
    if known is not None:
        raise line.line.refuse(line.name, "is given twice")
    return line


def _read_rule(line: Property) -> Parts:
    if line.parameters:
        raise line.line.refuse("RRULE", "has no parameters")
    given: dict[str, Fragment] = {}
    values: dict[str, Any] = {}
    for fragment in line.value.split(";"):
        name, value = _read_part(fragment)
        if name in given:
            raise fragment.refuse(name, "is given twice")
        given[name] = fragment
        field, read = _READERS[name]
        values[field] = read(value)
    if "FREQ" not in given:
        raise line.value.refuse("FREQ", "is missing")
    parts = Parts(**values)
    conflict = find_conflict(parts)
    if conflict is not None:
        raise given[conflict[0]].refuse(*conflict)
    return parts


def _read_part(fragment: Fragment) -> tuple[str, Fragment]:
    name, value = fragment.partition("=")
    if value is None:
        raise fragment.refuse("RRULE", f'has "{fragment.text}" where NAME=VALUE is expected')
    if name.text.upper() not in _READERS:
        raise fragment.refuse(name.text.upper(), "is no part of a rule")
    return name.text.upper(), value


def _read_frequency(fragment: Fragment) -> Frequency:
    try:
        return Frequency[fragment.text.upper()]
    except KeyError:
        names = ", ".join(frequency.name for frequency in Frequency)
        reason = f'must be one of {names}, got "{fragment.text}"'
        raise fragment.refuse("FREQ", reason) from None


def _read_date(fragment: Fragment, part: str) -> Moment:
    moment = read_moment(fragment, part)
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise fragment.refuse(part, f"must be in the years {FIRST_YEAR} to {LAST_YEAR}")
    return moment


def _read_seconds(fragment: Fragment) -> tuple[int, ...]:
    if "60" in fragment.text:
        for item in fragment.split(","):
            if item.text == "60":
                reason = "must be between 0 and 59: no leap second is ever shown"
                raise item.refuse("BYSECOND", reason)
    return read_numbers(fragment, "BYSECOND", 0, 59)


_READERS: dict[str, tuple[str, Callable[[Fragment], object]]] = {
    "FREQ": ("frequency", _read_frequency),
    "INTERVAL": ("interval", lambda value: read_number(value, "INTERVAL", 1, MAX_INTERVAL)),
    "COUNT": ("count", lambda value: read_number(value, "COUNT", 1, MAX_COUNT)),
    "UNTIL": ("until", lambda value: _read_date(value, "UNTIL")),
    "BYMONTH": ("months", lambda value: read_numbers(value, "BYMONTH", 1, 12)),
    "BYWEEKNO": ("week_numbers", lambda value: read_ordinals(value, "BYWEEKNO", 53)),
    "BYYEARDAY": ("year_days", lambda value: read_ordinals(value, "BYYEARDAY", 366)),
    "BYMONTHDAY": ("month_days", lambda value: read_ordinals(value, "BYMONTHDAY", 31)),
    "BYDAY": ("weekdays", lambda value: read_weekdays(value, "BYDAY")),
    "BYHOUR": ("hours", lambda value: read_numbers(value, "BYHOUR", 0, 23)),
    "BYMINUTE": ("minutes", lambda value: read_numbers(value, "BYMINUTE", 0, 59)),
    "BYSECOND": ("seconds", _read_seconds),
    "BYSETPOS": ("positions", lambda value: read_ordinals(value, "BYSETPOS", 366)),
    "WKST": ("week_start", lambda value: read_weekday(value, "WKST")),
}


def _make_frame(found: _Lines, start: datetime | None, gap: Gap, fold: Fold) -> Frame:
    written = None if found.start is None else _read_start(found, found.start)
    if start is None and written is None:
        raise InvalidInputError(
            "start must be given, as the text has no DTSTART", {"field": "start"}
        )
    if start is not None:
        _check_start(start)
    places = [_place(moment, found.zone) for moment in (start, written) if moment is not None]
    if found.start is not None and places[0] != places[-1]:
        raise found.start.line.refuse("DTSTART", "is not the start that is given beside the text")
    wall, at = places[0]
    return Frame(found.zone, wall, at, gap, fold)


def _read_start(found: _Lines, line: Property) -> datetime:
    moments = found.read_dates(line)
    if len(moments) > 1:
        raise line.value.refuse("DTSTART", "must be one date and time")
    return _at_time(moments[0], time())


def _place(start: datetime, zone: tzinfo) -> tuple[int, int]:
    """DTSTART as a wall time and as an instant; a naive one says by ``fold`` which showing."""
    if start.tzinfo is not None:
        return wall_seconds(wall_time(start, zone)), instant_seconds(start.astimezone(UTC))
    showings = instants_of(start, zone, gap="shift", fold="both")
    return wall_seconds(start), instant_seconds(showings[-1 if start.fold else 0])


def _added_instants(found: _Lines, frame: Frame) -> Iterator[int]:
    """What RDATE adds; a date alone takes its time of day from DTSTART."""
    of_day = as_wall(frame.start_wall).time()
    for moment in found.dates_of(found.added):
        yield from _instants(_at_time(moment, of_day), frame, frame.fold)


def _read_exclusions(found: _Lines, frame: Frame) -> Exclusions:
    """What EXDATE takes away.

    A date alone stands for all of that day, a wall time for both of its showings.
    """
    moments = list(found.dates_of(found.excluded))
    exact = [moment for moment in moments if isinstance(moment, datetime)]
    whole = [moment for moment in moments if not isinstance(moment, datetime)]
    return Exclusions(
        frozenset(at for moment in exact for at in _instants(moment, frame, "both")),
        frozenset(day.toordinal() for day in whole),
    )


def _instants(moment: datetime, frame: Frame, fold: Fold) -> Iterator[int]:
    if moment.tzinfo is not None:
        yield instant_seconds(moment)
    else:
        yield from map(instant_seconds, instants_of(moment, frame.zone, gap=frame.gap, fold=fold))


def _check_start(start: datetime) -> None:
    if not isinstance(start, datetime):
        raise InvalidInputError(f"start must be a datetime, got {start!r}", {"field": "start"})
    if not FIRST_YEAR <= start.year <= LAST_YEAR:
        raise InvalidInputError(
            f"start must be in the years {FIRST_YEAR} to {LAST_YEAR}, got {start.isoformat()}",
            {"field": "start", "value": start.isoformat()},
        )


def _at_time(moment: Moment, of_day: time) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.combine(moment, of_day)


def _check_choices(zone: tzinfo, gap: str, fold: str) -> None:
    if not isinstance(zone, tzinfo):
        raise InvalidInputError(f"zone must be a tzinfo, got {zone!r}", {"field": "zone"})
    for field, value, allowed in (("gap", gap, _GAPS), ("fold", fold, _FOLDS)):
        if value not in allowed:
            raise InvalidInputError(
                f"{field} must be one of {', '.join(allowed)}, got {value!r}",
                {"field": field, "value": value},
            )
