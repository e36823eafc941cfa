"""Field types that several resources share.

Constraints in ``extra_json_schema`` only document: ``rota.jobs`` checks those values and gives
better errors. Other constraints are enforced when a request is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta

from rota.errors import InvalidInputError, InvalidRequestError, JobNotFoundError
from rota.jobs import Job, JobId
from rota.jobs.fields import PLAIN_QUEUE_PATTERN, QUEUE_PATTERN
from rota.jobs.misfits import IN_WORDS
from rota.jobs.search import DEFAULT_LIMIT, HIGHEST_LIMIT
from rota.policy.audit import LONGEST_WHY
from rota.server.http.route import Call

PRINTABLE = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]+$"
WORD = {"pattern": "^[A-Za-z0-9_.:-]{1,200}$"}
UUID = {"format": "uuid", "examples": ["01890a5d-ac96-774b-bcce-b302099a8057"]}
NAME = {"minLength": 1, "maxLength": 255, "pattern": PRINTABLE}
QUEUE = {"pattern": f"^{PLAIN_QUEUE_PATTERN}$", "examples": ["mail"]}
PRIORITY = {"minimum": 1, "maximum": 10}
DEPENDENCIES = {"maxItems": 50, "uniqueItems": True}
INSTANT = {"format": "date-time", "examples": ["2026-05-01T12:00:00Z"]}
NO_NUL = {"pattern": "^[^\\u0000]*$"}
WALL_TIME = {
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?$",
    "examples": ["2027-03-28T01:30"],
}

Uuid = Annotated[str, Meta(description="The id of a job: a UUID.", extra_json_schema=UUID)]
Name = Annotated[
    str,
    Meta(
        description="The name of the job: 1 to 255 printable characters.",
        extra_json_schema={**NAME, "examples": ["Send the weekly report"]},
    ),
]
Queue = Annotated[
    str, Meta(description="The queue that workers take the job from.", extra_json_schema=QUEUE)
]
Kind = Annotated[
    str,
    Meta(
        description="The kind, which names the handler.",
        extra_json_schema={**WORD, "examples": ["log.message"]},
    ),
]
Priority = Annotated[
    int,
    Meta(
        description="From 1 to 10. Of two due jobs, the one with the higher priority runs first.",
        extra_json_schema=PRIORITY,
    ),
]
Payload = Annotated[
    Any,
    Meta(
        description="Any JSON value of up to 64 KiB, passed to the handler.",
        extra_json_schema={"examples": [{"message": "Hello"}]},
    ),
]
IdempotencyKey = Annotated[
    str,
    Meta(
        description="Makes the job the only one of its kind with that key.", extra_json_schema=NAME
    ),
]
InstantText = Annotated[
    str,
    Meta(description="An instant: ISO 8601 with an offset from UTC.", extra_json_schema=INSTANT),
]
Moment = Annotated[datetime, Meta(tz=True, description="An instant, in UTC.")]
WallTime = Annotated[
    str,
    Meta(
        description="A wall time in the zone, even one that DST skips.", extra_json_schema=WALL_TIME
    ),
]

# Enforced here: no function of ``rota.jobs`` checks these values later.
QueueName = Annotated[
    str,
    Meta(
        pattern=f"^{QUEUE_PATTERN}$",
        description="A queue.",
        extra_json_schema={"examples": ["mail"]},
        extra={IN_WORDS: "must be 1 to 64 of the characters a-z, A-Z, 0-9, _, ., : and -"},
    ),
]
SearchText = Annotated[str, Meta(min_length=1, max_length=255, extra_json_schema=NO_NUL)]
TypedSearch = Annotated[
    SearchText | None,
    Meta(
        description="Words and fields: kind:email state:dead payload.order=7 priority:7.. "
        "created:2h.. welcome."
    ),
]
PriorityBound = Annotated[int, Meta(ge=1, le=10, description="A priority, from 1 to 10.")]
Why = Annotated[
    str,
    Meta(
        description="The reason, for the audit log.",
        max_length=LONGEST_WHY,
        extra_json_schema={**NO_NUL, "examples": ["requested by the customer"]},
    ),
]

Cursor = Annotated[str | None, Meta(description="The cursor of the next page; null on the last.")]
PageCursor = Annotated[
    str | None, Meta(description="The next_cursor of the previous page. Default: the first page.")
]
PageLimit = Annotated[
    int,
    Meta(
        description="The number of items per page.",
        extra_json_schema={"minimum": 1, "maximum": HIGHEST_LIMIT},
    ),
]


Item = TypeVar("Item")


class Whole(msgspec.Struct, Generic[Item], frozen=True):
    """A list that has one page only."""

    items: Sequence[Item]
    next_cursor: str | None = None
    has_more: bool = False


class PageOf(msgspec.Struct, Generic[Item], frozen=True, gc=False):
    """A page of a list."""

    items: Sequence[Item]
    next_cursor: Cursor
    has_more: bool


class PageChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which page of a list."""

    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


Whose = Annotated[
    Literal["own", "all"], Meta(description="own: your tenant only; all: all tenants together.")
]


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The reason. The audit log also records the name of the token."""

    why: Why | None = None


@contextmanager
def naming_fields(default: str, names: Mapping[str, str] = {}) -> Iterator[None]:
    """Errors about a value name its field as the API does; ``default`` where they name none."""
    try:
        yield
    except InvalidInputError as error:
        field = str(error.details.get("field", default))
        reason = str(error.details.get("reason") or error.message)
        raise InvalidRequestError(names.get(field, field), reason) from error


def list_given(order: msgspec.Struct, names: Iterable[str] = ()) -> dict[str, Any]:
    """The fields that a request gives, by name; of all its fields or of some."""
    given = {name: getattr(order, name) for name in names or order.__struct_fields__}
    return {name: value for name, value in given.items() if value is not UNSET}


def choose_moment(at: datetime | None, wall: str | None) -> datetime | None:
    """The instant, or the wall time as a naive datetime. At most one may be given."""
    if wall is None:
        return at
    if at is not None:
        raise InvalidRequestError("wall", "must not be given beside at")
    wanted = f"must be a date and a time without an offset, such as {WALL_TIME['examples'][0]}"
    try:
        read = datetime.fromisoformat(wall)
    except ValueError as error:
        raise InvalidRequestError("wall", wanted) from error
    if read.tzinfo is not None:
        raise InvalidRequestError("wall", wanted)
    return read


def tenant_of(call: Call[Any, Any], whose: Whose) -> str | None:
    """The caller's tenant; None for all tenants."""
    return call.tenant if whose == "own" else None


async def read_job(call: Call[Any, Any], job_id: JobId | None = None) -> Job:
    """The job with this id, by default the one in the path; JobNotFoundError when unknown."""
    wanted = job_id or call.path["job_id"]
    found = await call.store.get(call.tenant, [wanted])
    queues = call.caller.queues
    if wanted not in found or (queues is not None and found[wanted].queue not in queues):
        raise JobNotFoundError(wanted)
    return found[wanted]
