"""RFC 5545 recurrence rules: parse one from text, and ask when it occurs."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, tzinfo
from functools import cached_property
from itertools import islice
from typing import Any, Protocol, get_args

from rota.errors import InvalidInputError, InvalidRecurrenceRuleError
from rota.triggers.cron_fields import check_limit
from rota.triggers.descriptions import describe_rule
from rota.triggers.rrule_elapsed import ElapsedSearch
from rota.triggers.rrule_grammar import (
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
from rota.triggers.rrule_parts import (
    CALENDAR_END,
    DAY,
    FIRST_YEAR,
    LAST_YEAR,
    Budget,
    Frame,
    Frequency,
    Parts,
    as_instant,
    as_wall,
    complete_parts,
    find_conflict,
    instant_seconds,
    wall_seconds,
)
from rota.triggers.rrule_walls import WallSearch, make_series
from rota.triggers.zone import Fold, Gap, instants_of, nearest_utc, wall_time

_PERIODS = {
    Frequency.YEARLY: 366 * DAY,
    Frequency.MONTHLY: 31 * DAY,
    Frequency.WEEKLY: 7 * DAY,
    Frequency.DAILY: DAY,
    Frequency.HOURLY: 3600,
    Frequency.MINUTELY: 60,
    Frequency.SECONDLY: 1,
}


class _Search(Protocol):
    def first_in(self, after: int, upto: int, budget: Budget) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The excluded instants and whole days of wall time, as numbers."""

    instants: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()


@dataclass(frozen=True, repr=False)
class RecurrenceRule:
    """When an RFC 5545 rule occurs; made by ``parse_rrule``.

    Immutable. Two rules are equal when their parts, in any order, their zone and their start are
    equal. Instants are returned in UTC.
    """

    text: str = field(compare=False)
    parts: Parts
    frame: Frame
    added: tuple[int, ...] = ()
    excluded: Exclusions = Exclusions()

    def __repr__(self) -> str:
        return f"RecurrenceRule({self.text!r}, start={self.start.isoformat()}, zone={self.zone})"

    @property
    def zone(self) -> tzinfo:
        return self.frame.zone

    @property
    def start(self) -> datetime:
        """DTSTART as an instant; it occurs only if the rest of the rule allows it."""
        return as_instant(self.frame.start_at)

    def next_after(self, instant: datetime, /) -> datetime | None:
        """The first occurrence strictly after ``instant``; None when there is none.

        Raises NoOccurrenceError when the search exceeds its budget, as for a sub-daily rule whose
        parts hardly ever meet.
        """
        after = instant_seconds(nearest_utc(instant))
        found = self._first(after, CALENDAR_END - 1, Budget.for_question(self.text))
        return None if found is None else as_instant(found)

    def previous_at(self, instant: datetime, /) -> datetime | None:
        """The latest occurrence at or before ``instant``; None when there is none yet."""
        upto = min(instant_seconds(nearest_utc(instant)), CALENDAR_END - 1)
        found = self._last(upto, Budget.for_question(self.text))
        return None if found is None else as_instant(found)

    def between(
        self, start: datetime, end: datetime, *, limit: int | None = None
    ) -> Iterator[datetime]:
        """The occurrences after ``start`` and not after ``end``, ascending, at most ``limit``."""
        check_limit(limit)
        after = instant_seconds(nearest_utc(start, "start"))
        upto = min(instant_seconds(nearest_utc(end, "end")), CALENDAR_END - 1)
        return islice(map(as_instant, self._walk_seconds(after, upto)), limit)

    def describe(self) -> str:
        """The rule in words, such as "Every 2 weeks on Monday at 18:00"."""
        words = describe_rule(self.parts, as_wall(self.frame.start_wall))
        for count, what in ((len(self.added), "plus"), (self._exclusion_count, "except")):
            if count:
                words += f", {what} {count} {'date' if count == 1 else 'dates'}"
        return words

    @property
    def _exclusion_count(self) -> int:
        return len(self.excluded.instants) + len(self.excluded.days)

    @cached_property
    def _search(self) -> _Search:
        start = as_wall(self.frame.start_wall)
        parts = complete_parts(self.parts, start)
        if parts.frequency.is_sub_daily:
            return ElapsedSearch(self.text, parts, self.frame)
        return WallSearch(self.text, make_series(parts, start), self.frame, parts.count)

    @cached_property
    def _additions(self) -> tuple[int, ...]:
        return tuple(at for at in self.added if not self._is_excluded(at))

    @cached_property
    def _until_at(self) -> int:
        """The last second that UNTIL allows. A date includes its whole day."""
        until = self.parts.until
        if until is None:
            return CALENDAR_END
        if not isinstance(until, datetime):
            return self.frame.last_second_of(until.toordinal())
        if until.tzinfo is not None:
            return instant_seconds(until)
        first, second = self.frame.showings(wall_seconds(until))
        return max(first, second)

    def _is_excluded(self, at: int) -> bool:
        if at in self.excluded.instants:
            return True
        return bool(self.excluded.days) and self._day_of(at) in self.excluded.days

    def _day_of(self, at: int) -> int:
        return (at + self.frame.offset_at(at)) // DAY

    def _walk_seconds(self, after: int, upto: int) -> Iterator[int]:
        search, is_plain = self._search, not (self.added or self._exclusion_count)
        while True:
            if is_plain and isinstance(search, WallSearch):
                for found in search.run_from(after, min(upto, self._until_at)):
                    yield found
                    after = found
            following = self._first(after, upto, Budget.for_question(self.text))
            if following is None:
                return
            yield following
            after = following

    def _first(self, after: int, upto: int, budget: Budget) -> int | None:
        found = self._first_generated(after, upto, budget)
        place = bisect_right(self._additions, after)
        if place == len(self._additions) or self._additions[place] > upto:
            return found
        added = self._additions[place]
        return added if found is None else min(found, added)

    def _first_generated(self, after: int, upto: int, budget: Budget) -> int | None:
        upto = min(upto, self._until_at)
        while after < upto:
            found = self._search.first_in(after, upto, budget)
            if found is None or not self._is_excluded(found):
                return found
            budget.spend()
            after = found
            if self._day_of(found) in self.excluded.days:
                after = max(found, self.frame.last_second_of(self._day_of(found)))
        return None

    def _last(self, upto: int, budget: Budget) -> int | None:
        found = self._last_generated(min(upto, self._until_at), budget)
        place = bisect_right(self._additions, upto)
        if not place:
            return found
        added = self._additions[place - 1]
        return added if found is None else max(found, added)

    def _last_generated(self, upto: int, budget: Budget) -> int | None:
        """Search ever longer ranges backwards, then close in on the last occurrence.

        Each search goes forward, because only that direction handles gaps, folds and counts.
        """
        start, width = self.frame.start_at, _PERIODS[self.parts.frequency] * self.parts.interval
        if self._first_generated(start - 1, upto, budget) is None:
            return None
        end, found = upto, None
        while end >= start:
            after = max(end - width, start - 1)
            found = self._first_generated(after, end, budget)
            if found is not None:
                return self._close_in(found, end, budget)
            end, width = after, width * 2
        return None

    def _close_in(self, found: int, end: int, budget: Budget) -> int:
        while (later := self._first_generated(found, end, budget)) is not None:
            found = later
            middle = (found + end) // 2
            beyond = self._first_generated(middle, end, budget)
            if beyond is None:
                end = middle
            else:
                found = beyond
        return found


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
    if found.starts_on_a_date:  # RFC 5545, 3.3.10: these MUST be ignored
        parts = replace(parts, hours=(), minutes=(), seconds=())
    frame = _make_frame(found, start, gap, fold)
    added = tuple(sorted(set(_added_instants(found, frame))))
    return RecurrenceRule(text, parts, frame, added, _read_exclusions(found, frame))


class _Lines:
    """The properties of a text by kind."""

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

    @property
    def starts_on_a_date(self) -> bool:
        """Whether DTSTART is a date without a time of day."""
        return self.start is not None and "T" not in self.start.value.text.upper()

    def _list_of(self, line: Property) -> list[Property]:
        if line.name == "RDATE":
            return self.added
        if line.name == "EXDATE":
            return self.excluded
        raise line.line.refuse(line.name, "is none of RRULE, DTSTART, RDATE and EXDATE")

    def dates_of(self, lines: list[Property]) -> Iterator[Moment]:
        """The values of these lines; wall times are in the rule's zone."""
        for line in lines:
            yield from self.read_dates(line)

    def read_dates(self, line: Property) -> list[Moment]:
        self._check_parameters(line)
        items = line.value.split(",")
        if len(items) > MAX_DATES:
            raise line.value.refuse(line.name, f"names {len(items)} dates, more than {MAX_DATES}")
        given = {name: value.text.upper() for name, value in line.parameters}
        return [_check_form(item, _read_date(item, line.name), line.name, given) for item in items]

    def _check_parameters(self, line: Property) -> None:
        for name, value in line.parameters:
            if name == "TZID":
                if value.text != str(self.zone):
                    reason = f'has TZID "{value.text}" where the rule has the zone {self.zone}'
                    raise value.refuse(line.name, reason)
            elif name != "VALUE" or value.text.upper() not in {"DATE", "DATE-TIME"}:
                raise value.refuse(line.name, f'cannot have {name} "{value.text}"')


def _check_form(item: Fragment, moment: Moment, part: str, parameters: Mapping[str, str]) -> Moment:
    """Refuse a date where a date and time is announced, the reverse, and a zone beside UTC."""
    is_instant = isinstance(moment, datetime) and moment.tzinfo is not None
    if is_instant and "TZID" in parameters:
        raise item.refuse(part, f'cannot have a TZID beside the Z of "{item.text}"; leave one out')
    form = "DATE-TIME" if isinstance(moment, datetime) else "DATE"
    announced = parameters.get("VALUE", form)
    if announced != form:
        raise item.refuse(part, f'has VALUE={announced}, and "{item.text}" is a {form}')
    return moment


def _only(known: Property | None, line: Property) -> Property:
    if known is not None:
        raise line.line.refuse(line.name, "is given twice")
    return line


def _read_rule(line: Property) -> Parts:
    if line.parameters:
        raise line.line.refuse("RRULE", "has no parameters")
    given: dict[str, Fragment] = {}
    values: dict[str, Any] = {}
    fragments = line.value.split(";")
    if len(fragments) > 1 and not fragments[-1].text:  # some programs end a rule with a semicolon
        fragments.pop()
    for fragment in fragments:
        name, value = _read_part(fragment)
        if name in given:
            raise fragment.refuse(name, "is given twice")
        given[name] = fragment
        part, read = _READERS[name]
        values[part] = read(value)
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
        raise fragment.refuse(name.text.upper(), "is not a part of a rule")
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
    for name, value, allowed in (("gap", gap, _GAPS), ("fold", fold, _FOLDS)):
        if value not in allowed:
            raise InvalidInputError(
                f"{name} must be one of {', '.join(allowed)}, got {value!r}",
                {"field": name, "value": value},
            )
