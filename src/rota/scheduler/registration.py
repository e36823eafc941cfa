"""Validates registrations. Pure."""

import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec

from rota.errors import (
    CronExpressionInvalidError,
    InvalidCronExpressionError,
    InvalidRegistrationError,
    NegativeRetryDelayError,
    RegistrationShapeError,
    RegistrationsNotArrayError,
    ScheduleDuplicateTaskError,
)
from rota.triggers.cron import Cron, Dialect, parse_cron

Callback: TypeAlias = Callable[[], Awaitable[Any] | Any]
Registration: TypeAlias = tuple[str, str, Callback, timedelta]

MAX_NAME_LENGTH = 255
_REFUSED_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}  # control, lone surrogate, line breaks
_MILLISECOND = timedelta(milliseconds=1)


class AcceptedTask(msgspec.Struct, frozen=True, gc=False):
    """A registration that passed, with its expression parsed.

    There may be a million: the garbage collector leaves them, and what is decided about them, out.
    """

    name: str
    cron: Cron
    callback: Callback
    retry_delay_ms: int


def accept_registrations(registrations: object, dialect: Dialect) -> list[AcceptedTask]:
    """Validate a whole list, and raise the first error of the first bad element.

    Checks per element, in order: shape, name, duplicate, expression, delay. Equal expressions and
    equal delays are read once.
    """
    if not isinstance(registrations, list | tuple):
        raise RegistrationsNotArrayError
    crons: dict[str, Cron] = {}
    delays: dict[timedelta, int] = {}
    names: set[str] = set()
    accepted = []
    for index, registration in enumerate(registrations):
        name, expression, callback, delay = _check_shape(registration, index)
        _check_name(name)
        if name in names:
            raise ScheduleDuplicateTaskError(name)
        names.add(name)
        cron = crons.get(expression)
        if cron is None:
            cron = crons[expression] = _parse(expression, dialect)
        delay_ms = delays.get(delay)
        if delay_ms is None:
            delay_ms = delays[delay] = _whole_milliseconds(delay)
        accepted.append(AcceptedTask(name, cron, callback, delay_ms))
    return accepted


def _check_shape(registration: Any, index: int) -> Registration:
    if isinstance(registration, list | tuple) and len(registration) == 4:
        name, expression, callback, delay = registration
        if (
            isinstance(name, str)
            and name
            and isinstance(expression, str)
            and callable(callback)
            and isinstance(delay, timedelta)
        ):
            return name, expression, callback, delay
    raise RegistrationShapeError(index, registration)


def _check_name(name: str) -> None:
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidRegistrationError(
            "name", name, f"must not be longer than {MAX_NAME_LENGTH} characters"
        )
    if not name.isprintable() and any(
        unicodedata.category(character) in _REFUSED_CATEGORIES for character in name
    ):
        raise InvalidRegistrationError("name", name, "must not hold control characters")


def _parse(expression: str, dialect: Dialect) -> Cron:
    try:
        return parse_cron(expression, dialect=dialect)
    except InvalidCronExpressionError as error:
        raise CronExpressionInvalidError(expression, error.field, error.reason) from error


def _whole_milliseconds(delay: timedelta) -> int:
    """The delay in whole milliseconds, rounded up, so that a retry is never early."""
    if delay < timedelta():
        raise NegativeRetryDelayError(delay / _MILLISECOND)
    whole, rest = divmod(delay, _MILLISECOND)
    return whole + bool(rest)


def count_registrations(registrations: object) -> int:
    """The length of the list, for the event that precedes its validation."""
    return len(registrations) if isinstance(registrations, Sequence) else 0
