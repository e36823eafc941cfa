"""Lengths of time, as people write them: a ``timedelta``, or text such as ``1h30m``."""

import re
from datetime import timedelta
from typing import TypeAlias

from rota.errors import InvalidInputError

Duration: TypeAlias = timedelta | str
"""A ``timedelta``, or text: numbers with the units d, h, m, s and ms, such as ``90s``."""

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_TERM = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_TEXT = re.compile(rf"(?:{_TERM.pattern})+")
_LONGEST_TEXT = 60


def read_duration(value: object, field: str) -> timedelta:
    """The length of time. InvalidInputError names ``field``, the value and the fix."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise _refuse(field, value)
        return value
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not _TEXT.fullmatch(value):
        raise _refuse(field, value)
    try:
        return sum(
            (float(number) * _UNITS[unit] for number, unit in _TERM.findall(value)), timedelta(0)
        )
    except OverflowError as error:
        raise _refuse(field, value) from error


def _refuse(field: str, value: object) -> InvalidInputError:
    reason = f"{value!r:.60} is not a length of time; write a timedelta, or text such as '90s'"
    return InvalidInputError(f"{field}: {reason} or '1h30m'", {"field": field, "reason": reason})
