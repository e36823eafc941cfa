"""The two dialects of cron expressions, from text to sets of numbers.

POSIX is strict, as the two declarative specifications define it: five fields, each ``*`` or a list
of numbers and ranges. It has no steps, names, macros or Quartz tokens; Sunday is 0, and a range
never wraps around. A day field counts as restricted unless it is written as ``*``, even if it names
every day. The extended dialect has steps, names, macros, seconds and ``@every``.
"""

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

from rota.errors import FieldParseError, InvalidCronExpressionError
from rota.triggers.cron_fields import (
    AT_SECOND_ZERO,
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_NAMES,
    SECOND,
    WEEKDAY,
    WEEKDAY_NAMES,
    CronFields,
    FieldRange,
    bits_between,
    check_happens,
    check_text,
    compile_splitter,
    read_digits,
    read_fields,
    refuse,
    span_of_field,
)

BLANKS: Final = " \t"
BLANKS_AND_LINE_ENDS: Final = " \t\r\n"

_POSIX_RANGES = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_SPLITTERS = {blanks: compile_splitter(blanks) for blanks in (BLANKS, BLANKS_AND_LINE_ENDS)}
_QUARTZ_MARK = re.compile(r"[?#]")
_QUARTZ_LETTER = re.compile(r"(?<![A-Z])(?:L|W|LW)(?![A-Z])", re.IGNORECASE)
_NAME = re.compile(r"(?<!\d)[^\W\d_]")


def parse_posix(expression: object, blanks: str = BLANKS) -> CronFields:
    """The fields of a strict expression, separated by ``blanks``.

    InvalidCronExpressionError names the leftmost bad field, or "expression" where no single field
    is at fault.
    """
    text = check_text(expression)
    texts = _SPLITTERS[blanks](text)
    if texts and texts[0].startswith("@"):
        reason = "macro syntax not supported (POSIX violation)"
        raise InvalidCronExpressionError(text, "expression", reason)
    if len(texts) != 5:
        reason = f"must have exactly 5 fields, got {len(texts)}"
        raise InvalidCronExpressionError(text, "expression", reason)
    minutes, hours, days, months, weekdays = read_fields(
        text, texts, _POSIX_RANGES, _read_posix_element
    )
    either = texts[2] != "*" and texts[4] != "*"
    fields = CronFields(AT_SECOND_ZERO, minutes, hours, days, months, weekdays, either)
    check_happens(text, fields)
    return fields


def _read_posix_element(element: str, text: str, field: FieldRange) -> int:
    low, _, high = (field.singles.get(part) for part in element.partition("-"))
    if low and high and low <= high:
        return (high << 1) - low
    return _read_unusual(element, text, field)


def _read_unusual(element: str, text: str, field: FieldRange) -> int:
    """An element in an unusual form: valid, or refused with the reason."""
    number = read_digits(element)
    if number is not None:
        return 1 << _check_range(number, text, field)
    return _read_range(element, text, field)


def _read_range(element: str, text: str, field: FieldRange) -> int:
    _refuse_extensions(element, text, field)
    if "-" not in element:
        reason = "decimal numbers not supported" if "." in element else "invalid number format"
        raise refuse(reason, text, field)
    numbers = [read_digits(part) for part in element.split("-")]
    match numbers:
        case [int(low), int(high)]:
            _check_range(low, text, field)
            _check_range(high, text, field)
        case _:
            raise refuse("invalid range format", text, field)
    if low > high:
        raise refuse("wrap-around ranges not supported (POSIX violation)", text, field)
    return bits_between(low, high)


def _check_range(number: int, text: str, field: FieldRange) -> int:
    if field.low <= number <= field.high:
        return number
    reason = f"out of range ({field.low}-{field.high})"
    if field is WEEKDAY and number == 7:
        reason += ": Sunday must be 0, not 7 (POSIX compliance)"
    raise refuse(reason, text, field)


def _refuse_extensions(element: str, text: str, field: FieldRange) -> None:
    """Name the extension that an element borrows from another dialect, if it does."""
    if "/" in element:
        raise refuse("slash syntax not supported (POSIX violation)", text, field)
    if element.startswith("@"):
        raise refuse("macro syntax not supported (POSIX violation)", text, field)
    token = _QUARTZ_MARK.search(element) or _QUARTZ_LETTER.search(element)
    if token is not None:
        reason = f"Quartz token '{token[0][0].upper()}' not supported (POSIX violation)"
        raise refuse(reason, text, field)
    if _NAME.search(element) is not None:
        raise refuse("names not supported, use numbers only (POSIX violation)", text, field)


EVERY: Final = "@every"

_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=106_751)  # 63 bits of nanoseconds, as in Go
_SECONDS_IN = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # the micro sign
    "μs": Fraction(1, 10**6),  # the Greek letter, which Go accepts too
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_TERM = re.compile(rf"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)({'|'.join(_SECONDS_IN)})")
_DURATION = re.compile(rf"(?:{_TERM.pattern})+")

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

split_extended = compile_splitter(" \t\n\v\f\r")

_EXTENDED_RANGES = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_NAMES = {
    MONTH.name: {name[:3].lower(): number for number, name in enumerate(MONTH_NAMES) if name},
    WEEKDAY.name: {name[:3].lower(): number for number, name in enumerate(WEEKDAY_NAMES)},
}
_STARS = ("*", "?")


_ZONE_PREFIX = re.compile(r"\s*(?:CRON_TZ|TZ)=(\S*)(?:\s+(.*))?", re.DOTALL)


def split_zone(text: str) -> tuple[str | None, str]:
    """The name of the zone in front of an expression, if any, and the expression."""
    found = _ZONE_PREFIX.fullmatch(text)
    return (None, text) if found is None else (found[1], found[2] or "")


def parse_extended(expression: str, texts: list[str]) -> CronFields:
    """The fields in these texts, which were split from ``expression``."""
    if len(texts) not in {5, 6}:
        reason = f"must have 5 fields, or 6 with seconds first, got {len(texts)}"
        raise InvalidCronExpressionError(expression, "expression", reason)
    sets = read_fields(expression, texts, _EXTENDED_RANGES[-len(texts) :], _read_extended_element)
    seconds = sets.pop(0) if len(texts) == 6 else AT_SECOND_ZERO
    minutes, hours, days, months, weekdays = sets
    either = not (_is_starred(texts[-3]) or _is_starred(texts[-1]))
    fields = CronFields(seconds, minutes, hours, days, months, weekdays, either)
    check_happens(expression, fields)
    return fields


def _is_starred(text: str) -> bool:
    """Whether an element of the field is a star without a step, or with step 1."""
    for element in text.split(","):
        star, _, step = element.partition("/")
        if star in _STARS and (not step or read_digits(step) == 1):
            return True
    return False


def _read_extended_element(element: str, text: str, field: FieldRange) -> int:
    numbers, slash, step_text = element.partition("/")
    step = _read_step(step_text, text, field) if slash else 1
    if numbers in _STARS:
        return bits_between(field.low, field.high, step)
    low_text, dash, high_text = numbers.partition("-")
    low = _read_number(low_text, text, field)
    high = field.high if slash else low
    if dash:
        high = _read_number(high_text, text, field)
    if low > high:
        raise refuse("wrap-around ranges not supported", text, field)
    return bits_between(low, high, step)


def _read_step(step_text: str, text: str, field: FieldRange) -> int:
    step = read_digits(step_text)
    if step is None:
        raise refuse("invalid step format", text, field)
    if step == 0:
        raise refuse("step must be at least 1", text, field)
    return step


def _read_number(number_text: str, text: str, field: FieldRange) -> int:
    names = _NAMES.get(field.name, {})
    number = names.get(number_text.lower(), read_digits(number_text))
    if number is None:
        expected = "a number or a name such as " + next(iter(names)) if names else "a number"
        raise refuse(f"invalid number format, expected {expected}", text, field)
    if not field.low <= number <= field.high:
        raise refuse(_out_of_range(number, field), text, field)
    return number


def _out_of_range(number: int, field: FieldRange) -> str:
    reason = f"out of range ({field.low}-{field.high})"
    return reason + ": Sunday is 0" if field is WEEKDAY and number == 7 else reason


def parse_period(expression: str, texts: list[str]) -> timedelta:
    """The duration after ``@every``, as Go writes it, in whole seconds, at least one."""
    if len(texts) != 2:
        reason = f"{EVERY} must be followed by one duration such as 1h30m"
        raise InvalidCronExpressionError(expression, "expression", reason)
    try:
        return _read_duration(texts[1])
    except FieldParseError as error:
        span = span_of_field(expression, texts, 1)
        raise InvalidCronExpressionError(
            expression, "expression", error.reason, position=span
        ) from error


def _read_duration(text: str) -> timedelta:
    if _DURATION.fullmatch(text) is None:
        reason = "has an invalid duration, expected numbers with units such as 1h30m or 90s"
        raise _refuse_duration(reason, text)
    terms = (Fraction(term[1]) * _SECONDS_IN[term[2]] for term in _TERM.finditer(text))
    seconds = sum(terms, Fraction())
    if seconds == 0:
        raise _refuse_duration("has a duration of zero", text)
    if seconds > _LONGEST.total_seconds():
        raise _refuse_duration(f"has a duration above {_LONGEST.days} days", text)
    return max(timedelta(seconds=int(seconds)), _SHORTEST)


def _refuse_duration(reason: str, text: str) -> FieldParseError:
    return FieldParseError(reason, field_value=text, field_name="expression")
