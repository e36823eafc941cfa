"""Lengths of time as people type them."""

from datetime import timedelta

from rota.errors import InvalidCronExpressionError, InvalidInputError
from rota.triggers.cron.extended import Every
from rota.triggers.parse import parse_cron


def read_duration(text: str, option: str) -> timedelta:
    """Numbers with units, such as ``90s`` or ``1h30m``; refused in the name of ``option``."""
    try:
        parsed = parse_cron(f"@every {text}", "extended")
    except InvalidCronExpressionError as error:
        raise _refuse(text, option) from error
    if not isinstance(parsed, Every):
        raise _refuse(text, option)
    return parsed.period


def _refuse(text: str, option: str) -> InvalidInputError:
    return InvalidInputError(
        f'{option} "{text}" is no length of time, such as 90s, 5m or 1h30m', {"field": option}
    )
