"""The extended dialect: what robfig/cron's standard parser reads, and a seconds field on request.

Five fields, or six with the seconds first. A field is a list of numbers, ranges and steps; months
and weekdays have English names; ``?`` is a star. ``@daily`` and its like stand for five fields.
A day field is unrestricted when it holds a star without a step above one: ``*/2`` restricts.
"""

from typing import Final

from rota.errors import InvalidCronExpressionError
from rota.triggers.cron.expression import check_happens, compile_splitter, read_fields
from rota.triggers.cron.fields import (
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
    read_digits,
    refuse,
)

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

_RANGES = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)
_NAMES = {
    MONTH.name: {name[:3].lower(): number for number, name in enumerate(MONTH_NAMES) if name},
    WEEKDAY.name: {name[:3].lower(): number for number, name in enumerate(WEEKDAY_NAMES)},
}
_STARS = ("*", "?")


def parse_extended(expression: str, texts: list[str]) -> CronFields:
    """The meaning of these field texts, cut from ``expression``; or InvalidCronExpressionError."""
    if len(texts) not in {5, 6}:
        reason = f"must have 5 fields, or 6 with seconds first, got {len(texts)}"
        raise InvalidCronExpressionError(expression, "expression", reason)
    sets = read_fields(expression, texts, _RANGES[-len(texts) :], _read_field)
    seconds = sets.pop(0) if len(texts) == 6 else AT_SECOND_ZERO
    minutes, hours, days, months, weekdays = sets
    either = not (_is_starred(texts[-3]) or _is_starred(texts[-1]))
    fields = CronFields(seconds, minutes, hours, days, months, weekdays, either)
    check_happens(expression, fields)
    return fields


def _is_starred(text: str) -> bool:
    """Whether an element of the field is a star whose step, if it has one, is 1."""
    for element in text.split(","):
        star, _, step = element.partition("/")
        if star in _STARS and (not step or read_digits(step) == 1):
            return True
    return False


def _read_field(text: str, field: FieldRange) -> int:
    bits = 0
    for element in text.split(","):
        single = field.singles.get(element)
        bits |= _read_element(element, text, field) if single is None else single
    return bits


def _read_element(element: str, text: str, field: FieldRange) -> int:
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
