"""The Clock protocol, and what everything does with instants and durations."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from rota.errors import InvalidInputError


class Clock(Protocol):
    """Reads time and waits for it. Instants are aware; a clock returns them in UTC.

    Every wait can be cancelled without leaving anything behind. A naive datetime, or a duration
    that is not a ``timedelta``, is refused with ``InvalidInputError`` before any waiting.
    """

    def now(self) -> datetime:
        """The current instant in UTC. It may go backwards when the host's clock is set."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Wait at least this long. Zero or less yields once to other tasks and returns.

        A duration is elapsed time: setting the host's clock back does not make the wait longer.
        """
        ...

    async def sleep_until(self, instant: datetime) -> None:
        """Wait until ``now()`` shows ``instant`` or later; never return while it shows less.

        A clock that is set forward, or a host that wakes from sleep, is noticed within seconds. An
        instant that is not in the future yields once to other tasks and returns.
        """
        ...


@runtime_checkable
class ConditionalClock(Clock, Protocol):
    """A clock that can also wait for a condition. Only virtual time notices each one in time."""

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked whenever time is about to move."""
        ...


def keeps_real_time(clock: Clock) -> bool:
    """Whether this clock runs in real time and no test drives it.

    Only then can a thread wait beside it. A clock says so by an attribute ``is_real``; one without
    it counts as virtual.
    """
    return bool(getattr(clock, "is_real", False))


END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def to_utc(instant: datetime, field: str = "instant") -> datetime:
    """The same instant in UTC. Anything but an aware datetime is refused, by the name ``field``."""
    if not isinstance(instant, datetime):
        raise InvalidInputError(
            f"{field} must be a datetime, not {type(instant).__name__}", {"field": field}
        )
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        raise InvalidInputError(
            f"{field} must be an aware datetime, got the naive {instant.isoformat()}",
            {"field": field, "value": instant.isoformat()},
        )
    return instant.astimezone(UTC)


def as_duration(duration: timedelta, field: str = "duration") -> timedelta:
    """The duration itself, or ``InvalidInputError`` that names ``field``."""
    if isinstance(duration, timedelta):
        return duration
    raise InvalidInputError(
        f"{field} must be a timedelta, not {type(duration).__name__}", {"field": field}
    )


def later(instant: datetime, duration: timedelta) -> datetime:
    """The instant moved by the duration, clamped to the end of the calendar."""
    try:
        return instant + duration
    except OverflowError:
        return END_OF_TIME if duration > timedelta(0) else instant
