"""Is a list of registrations valid? Decided here anew, not by asking the scheduler under test."""

import unicodedata
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache

from tests.verification.trace.actions import Misshapen, Registrations, TaskFacts
from tests.verification.trace.editions import Dialect

from rota.errors import InvalidCronExpressionError
from rota.triggers.cron import parse_cron

LONGEST_NAME = 255


def describe_registrations(registrations: object) -> Registrations:
    """The facts of whatever was given to ``initialize``, of any shape."""
    if not isinstance(registrations, Sequence) or isinstance(registrations, str | bytes):
        return None
    return tuple(_describe(element) for element in registrations)


def find_flaw(registrations: Registrations, dialect: Dialect) -> str | None:
    """Why the list must be refused, in words; None when it is valid."""
    if registrations is None:
        return "it is not a list"
    names: set[str] = set()
    for position, element in enumerate(registrations):
        flaw = _find_flaw_in(element, dialect)
        if flaw is None and isinstance(element, TaskFacts):
            flaw = "its name is not unique" if element.name in names else None
            names.add(element.name)
        if flaw is not None:
            return f"registration {position}: {flaw}"
    return None


def _describe(element: object) -> TaskFacts | Misshapen:
    if isinstance(element, tuple | list) and len(element) == 4:
        name, expression, callback, delay = element
        if (
            isinstance(name, str)
            and isinstance(expression, str)
            and callable(callback)
            and isinstance(delay, timedelta)
        ):
            return TaskFacts(name, expression, delay)
    return Misshapen(repr(element)[:200])


def _find_flaw_in(element: TaskFacts | Misshapen, dialect: Dialect) -> str | None:
    if isinstance(element, Misshapen):
        return f"{element.received} has not the shape of a registration"
    if not 1 <= len(element.name) <= LONGEST_NAME:
        return f"its name has {len(element.name)} characters"
    if any(unicodedata.category(character) == "Cc" for character in element.name):
        return "its name holds a control character"
    if element.retry_delay < timedelta():
        return f"its retry delay is negative ({element.retry_delay})"
    return _find_flaw_in_expression(element.expression, dialect)


@lru_cache(maxsize=4096)
def _find_flaw_in_expression(expression: str, dialect: Dialect) -> str | None:
    try:
        parse_cron(expression, dialect)
    except InvalidCronExpressionError as error:
        return str(error)
    return None
