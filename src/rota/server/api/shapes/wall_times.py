"""Times as clocks on walls show them: without an offset, in a zone that is known otherwise."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from rota.errors import InvalidRequestError

A_WALL_TIME = "2027-03-28T01:30"
WALL_TIME = {
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?$",
    "examples": [A_WALL_TIME],
}

WallTime = Annotated[
    str,
    Meta(
        description="The same at this time on the clocks of the zone, even if they skip it.",
        extra_json_schema=WALL_TIME,
    ),
]

_WANTED = f"must be a date and a time without an offset, such as {A_WALL_TIME}"


def choose_moment(at: datetime | None, wall: str | None) -> datetime | None:
    """The one of the two that was given, the wall time as a naive one; they exclude each other."""
    if wall is None:
        return at
    if at is not None:
        raise InvalidRequestError("wall", "must not be given beside at")
    try:
        read = datetime.fromisoformat(wall)
    except ValueError as error:
        raise InvalidRequestError("wall", _WANTED) from error
    if read.tzinfo is not None:
        raise InvalidRequestError("wall", _WANTED)
    return read
