"""Strict POSIX crontab expressions, as the two declarative specifications define them.

Five fields; each is ``*`` or a list of numbers and ranges. Nothing else: no steps, names, macros
or Quartz tokens, Sunday is 0 alone, and a range never wraps around. A day field counts as
restricted when it is written as anything but ``*``, even if it names every day.
"""

import re
from typing import Final

from rota.errors import FieldParseError, InvalidCronExpressionError
from rota.triggers.cron.expression import (
    check_happens,
    check_text,
    compile_splitter,
    read_fields,
)
from rota.triggers.cron.fields import (
    AT_SECOND_ZERO,
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    CronFields,
    FieldRange,
    bits_between,
    read_digits,
    refuse,
)

BLANKS: Final = " \t"
BLANKS_AND_LINE_ENDS: Final = " \t\r\n"

_RANGES = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_SPLITTERS = {blanks: compile_splitter(blanks) for blanks in (BLANKS, BLANKS_AND_LINE_ENDS)}
_QUARTZ_MARK = re.compile(r"[?#]")
_QUARTZ_LETTER = re.compile(r"(?<![A-Z])(?:L|W|LW)(?![A-Z])", re.IGNORECASE)
_NAME = re.compile(r"(?<!\d)[^\W\d_]")


def parse_posix(expression: object, blanks: str = BLANKS) -> CronFields:
    """The meaning of a strict expression, whose fields are separated by ``blanks`` alone.

    Anything else raises InvalidCronExpressionError, whose ``field`` is the leftmost bad one, or
    "expression" where no single field is to blame.
    """
    text = check_text(expression)
    texts = _SPLITTERS[blanks](text)
    if texts and texts[0].startswith("@"):
        reason = "macro syntax not supported (POSIX violation)"
        raise InvalidCronExpressionError(text, "expression", reason)
    if len(texts) != 5:
        reason = f"must have exactly 5 fields, got {len(texts)}"
        raise InvalidCronExpressionError(text, "expression", reason)
    minutes, hours, days, months, weekdays = read_fields(text, texts, _RANGES, _read_field)
    either = texts[2] != "*" and texts[4] != "*"
    fields = CronFields(AT_SECOND_ZERO, minutes, hours, days, months, weekdays, either)
    check_happens(text, fields)
    return fields


def _read_field(text: str, field: FieldRange) -> int:
    bits = 0
    for element in text.split(","):
        single = field.singles.get(element)
        bits |= _read_element(element, text, field) if single is None else single
    return bits


def _read_element(element: str, text: str, field: FieldRange) -> int:
    low, _, high = (field.singles.get(part) for part in element.partition("-"))
    if low and high and low <= high:
        return (high << 1) - low
    return _read_unusual(element, text, field)


def _read_unusual(element: str, text: str, field: FieldRange) -> int:
    """An element written in no usual way: it may be right all the same, or say what is wrong."""
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
        raise _refuse_quartz(token[0][0].upper(), text, field)
    if _NAME.search(element) is not None:
        raise refuse("names not supported, use numbers only (POSIX violation)", text, field)


def _refuse_quartz(token: str, text: str, field: FieldRange) -> FieldParseError:
    return refuse(f"Quartz token '{token}' not supported (POSIX violation)", text, field)
