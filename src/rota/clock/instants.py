"""What may be handed to a clock: aware instants and durations, nothing that only looks like one."""

from datetime import UTC, datetime, timedelta

from rota.errors import InvalidInputError

END_OF_TIME = datetime.max.replace(tzinfo=UTC)


def as_utc(instant: datetime, field: str = "instant") -> datetime:
    """The same instant in UTC, or ``InvalidInputError`` that names ``field``."""
    if not isinstance(instant, datetime):
        raise InvalidInputError(
            f"{field} must be a datetime, not {type(instant).__name__}", {"field": field}
        )
    if instant.tzinfo is UTC:
        return instant
    if instant.utcoffset() is None:
        raise InvalidInputError(
            f"{field} must be aware: {instant.isoformat()} has no time zone", {"field": field}
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
    """The instant moved by the duration; what lies beyond the calendar is its end."""
    try:
        return instant + duration
    except OverflowError:
        return END_OF_TIME if duration > timedelta(0) else instant
