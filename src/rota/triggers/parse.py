"""Cron text to schedule: which dialect is which."""

from datetime import timedelta
from typing import Literal

from rota.errors import InvalidInputError
from rota.triggers.cron.posix import BLANKS, BLANKS_AND_LINE_ENDS, parse_posix
from rota.triggers.cron.schedule import Cron, FieldCron

Dialect = Literal["posix", "posix-multiline", "extended"]

_MINUTE = timedelta(minutes=1)


def parse_cron(text: str, dialect: Dialect = "posix") -> Cron:
    """The schedule that a cron expression writes, or InvalidCronExpressionError."""
    match dialect:
        case "posix":
            return FieldCron(parse_posix(text, BLANKS), _MINUTE, text)
        case "posix-multiline":
            return FieldCron(parse_posix(text, BLANKS_AND_LINE_ENDS), _MINUTE, text)
    raise InvalidInputError(f"no dialect {dialect}")
