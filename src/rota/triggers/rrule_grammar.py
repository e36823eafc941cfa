"""The text of a rule: lines, fragments with their positions, and values.

Strict to the letter. Every refusal names the part at fault and the span of text it stands in.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import NamedTuple, TypeVar

import msgspec

from rota.errors import InvalidRecurrenceRuleError
from rota.triggers.rrule_parts import NthWeekday

MAX_TEXT_LENGTH = 32_768
"""A longer text is not a rule a person wrote; it is refused unread."""

MAX_LIST_LENGTH = 1_000
"""No BY list of RFC 5545 has as many different values."""

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_SHOWN_OF_TOO_LONG = 60
_Value = TypeVar("_Value", int, NthWeekday)
_FOLD = re.compile(r"\r?\n[ \t]")
"""RFC 5545, 3.1: a long line continues in the next one, after a space or a tab."""

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_SIGNED = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)
_MOMENT = re.compile(r"([0-9]{8})(T[0-9]{6})?(Z)?", re.ASCII)


class Fragment(NamedTuple):
    """A half-open span of the text."""

    source: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source[self.start : self.end]

    def partition(self, separator: str) -> tuple["Fragment", "Fragment | None"]:
        """What stands before and after the first ``separator``; None after, when there is none."""
        at = self.source.find(separator, self.start, self.end)
        if at < 0:
            return self, None
        return Fragment(self.source, self.start, at), Fragment(self.source, at + 1, self.end)

    def split(self, separator: str) -> list["Fragment"]:
        found, start = [], self.start
        for piece in self.text.split(separator):
            found.append(Fragment(self.source, start, start + len(piece)))
            start += len(piece) + 1
        return found

    def refuse(self, part: str, reason: str) -> InvalidRecurrenceRuleError:
        """The error to raise: ``part`` is at fault, and stands here."""
        return InvalidRecurrenceRuleError(
            self.source, part, reason, position=(self.start, self.end)
        )


class Property(msgspec.Struct, frozen=True):
    """One line: a name in capitals, its parameters, and its value."""

    name: str
    parameters: tuple[tuple[str, Fragment], ...]
    value: Fragment
    line: Fragment


def read_properties(text: str) -> Iterator[Property]:
    """The lines of ``text`` that are not empty; a bare rule is read as an RRULE."""
    if len(text) > MAX_TEXT_LENGTH:
        shown = text[:_SHOWN_OF_TOO_LONG] + "…"
        reason = f"has {len(text)} characters, more than {MAX_TEXT_LENGTH}"
        raise InvalidRecurrenceRuleError(shown, "text", reason)
    text = _FOLD.sub("", text)
    for line in Fragment(text, 0, len(text)).split("\n"):
        bare = _without_return(line)
        if bare.text:
            yield _read_line(bare)


def _without_return(line: Fragment) -> Fragment:
    if line.text.endswith("\r"):
        return Fragment(line.source, line.start, line.end - 1)
    return line


def _read_line(line: Fragment) -> Property:
    head, value = line.partition(":")
    name, parameters = head.partition(";")
    if value is None or "=" in name.text:  # a bare rule, even one with a colon where none belongs
        return Property("RRULE", (), line, line)
    given = () if parameters is None else tuple(map(_read_parameter, parameters.split(";")))
    return Property(name.text.upper(), given, value, line)


def _read_parameter(fragment: Fragment) -> tuple[str, Fragment]:
    name, value = fragment.partition("=")
    if value is None:
        raise fragment.refuse("parameter", f'"{fragment.text}" has no value')
    return name.text.upper(), value


def read_number(fragment: Fragment, part: str, low: int, high: int) -> int:
    """A whole number without a sign, within both limits."""
    if not _NUMBER.fullmatch(fragment.text):
        raise fragment.refuse(part, f'must be a whole number, got "{fragment.text}"')
    number = int(fragment.text)
    if not low <= number <= high:
        raise fragment.refuse(part, f"must be between {low} and {high}, got {number}")
    return number


def read_numbers(fragment: Fragment, part: str, low: int, high: int) -> tuple[int, ...]:
    return _read_list(fragment, part, lambda item: read_number(item, part, low, high))


def read_ordinals(fragment: Fragment, part: str, high: int) -> tuple[int, ...]:
    """A list of numbers from 1 to ``high``, or negative ones that count from the end."""
    return _read_list(fragment, part, lambda item: _read_ordinal(item, part, high))


def read_weekdays(fragment: Fragment, part: str) -> tuple[NthWeekday, ...]:
    return _read_list(fragment, part, lambda item: _read_nth_weekday(item, part))


def read_weekday(fragment: Fragment, part: str) -> int:
    name = fragment.text.upper()
    if name not in WEEKDAYS:
        raise fragment.refuse(part, f'must be one of {", ".join(WEEKDAYS)}, got "{fragment.text}"')
    return WEEKDAYS.index(name)


def read_moment(fragment: Fragment, part: str) -> date | datetime:
    """A date (20250131), a wall time (20250131T090000) or an instant (20250131T090000Z)."""
    match = _MOMENT.fullmatch(fragment.text.upper())
    if match is None or (match[3] and not match[2]):
        raise fragment.refuse(
            part, f'must be written as 20250131, 20250131T090000 or ...Z, got "{fragment.text}"'
        )
    try:
        return _moment(match[1], match[2] or "", is_utc=bool(match[3]))
    except ValueError as error:
        raise fragment.refuse(part, f'is not a date and time: "{fragment.text}"') from error


def _moment(day: str, time: str, *, is_utc: bool) -> date | datetime:
    on = date(int(day[:4]), int(day[4:6]), int(day[6:]))
    if not time:
        return on
    hour, minute, second = int(time[1:3]), int(time[3:5]), int(time[5:])
    moment = datetime(on.year, on.month, on.day, hour, minute, second)  # noqa: DTZ001 - a wall time
    return moment.replace(tzinfo=UTC) if is_utc else moment


def _read_ordinal(fragment: Fragment, part: str, high: int) -> int:
    if not _SIGNED.fullmatch(fragment.text):
        raise fragment.refuse(part, f'must be a whole number, got "{fragment.text}"')
    number = int(fragment.text)
    if not 1 <= abs(number) <= high:
        limits = f"between 1 and {high}, or between -{high} and -1"
        raise fragment.refuse(part, f"must be {limits}, got {number}")
    return number


def _read_nth_weekday(fragment: Fragment, part: str) -> NthWeekday:
    match = _WEEKDAY.fullmatch(fragment.text.upper())
    if match is None:
        wanted = "must be a day such as MO, 1MO or -1FR"
        raise fragment.refuse(part, f'{wanted}, got "{fragment.text}"')
    weekday = WEEKDAYS.index(match[2])
    if match[1] is None:
        return NthWeekday(weekday)
    ordinal = Fragment(fragment.source, fragment.start, fragment.end - 2)
    return NthWeekday(weekday, _read_ordinal(ordinal, part, 53))


def _read_list(
    fragment: Fragment, part: str, read: Callable[[Fragment], _Value]
) -> tuple[_Value, ...]:
    """The values between commas, ascending and each once; refused when there are too many."""
    if "," not in fragment.text:
        return (read(fragment),)
    items = fragment.split(",")
    if len(items) > MAX_LIST_LENGTH:
        raise fragment.refuse(part, f"lists {len(items)} values, more than {MAX_LIST_LENGTH}")
    return tuple(sorted({read(item) for item in items}))
