"""Parses cron text in one of its dialects."""

from datetime import timedelta
from typing import Literal, get_args

from rota.errors import InvalidCronExpressionError, InvalidInputError
from rota.triggers.cron.expression import Cron, FieldCron, check_text
from rota.triggers.cron.extended import EVERY, MACROS, parse_every, parse_extended, split_extended
from rota.triggers.cron.posix import BLANKS, BLANKS_AND_LINE_ENDS, parse_posix

Dialect = Literal["posix", "posix-multiline", "extended"]
"""The strict five fields separated by space and tab; the same, also over several lines; and the
standard dialect of robfig/cron with an optional seconds field.
"""

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


def parse_cron(text: str, dialect: Dialect = "posix") -> Cron:
    """The schedule that ``text`` writes, or InvalidCronExpressionError with what is wrong where.

    Dates that no year has, such as 31 February, are refused. Text of any kind and length gets an
    answer at once.
    """
    if dialect == "posix":
        return FieldCron(parse_posix(text, BLANKS), _MINUTE, text)
    if dialect == "posix-multiline":
        return FieldCron(parse_posix(text, BLANKS_AND_LINE_ENDS), _MINUTE, text)
    if dialect == "extended":
        return _parse_extended(text)
    raise InvalidInputError(
        f'dialect must be one of {", ".join(get_args(Dialect))}, got "{dialect}"',
        {"field": "dialect", "value": dialect},
    )


def _parse_extended(text: str) -> Cron:
    texts = split_extended(check_text(text))
    first = texts[0] if texts else ""
    if first == EVERY:
        return parse_every(text, texts)
    if len(texts) == 1 and first in MACROS:
        return FieldCron(parse_extended(text, MACROS[first].split()), _MINUTE, text)
    if first.startswith("@"):
        reason = f"has no macro {first[:20]}; there are {', '.join(MACROS)} and {EVERY}"
        raise InvalidCronExpressionError(text, "expression", reason)
    if "=" in first:
        reason = f"names a zone ({first[:40]}), which is given apart from the expression"
        raise InvalidCronExpressionError(text, "expression", reason)
    return FieldCron(parse_extended(text, texts), _SECOND if len(texts) == 6 else _MINUTE, text)
