"""Error groups: the same kind, exception and place; retry or discard their dead letters."""

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.ops.error_groups import (
    GroupLetters,
    discard_group,
    find_error_group,
    find_group_letters,
    list_error_groups,
    retry_group,
)
from rota.server.api.fields import Moment, Uuid, Whole, Why
from rota.server.http.route import Call, Nothing, Route, route
from rota.telemetry.error_groups import ErrorGroup

GROUPS = "/api/v1/errors"
ONE_GROUP = "/api/v1/errors/{group_id}"


class GroupChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which groups. Default: all."""

    kind: Annotated[str | None, Meta(description="Failures of jobs of this kind.")] = None


class ErrorGroupView(msgspec.Struct, frozen=True, kw_only=True):
    """Failed attempts of one kind with the same exception, raised at the same place.

    ``place`` is the file and function in your own code; empty without a traceback. ``dead_count``
    attempts were the last of their job. ``job_id`` and ``message`` are those of the latest failure.
    """

    id: str
    kind: str
    name: str
    place: str
    count: int
    dead_count: int
    first_at: Moment
    last_at: Moment
    job_id: Uuid
    queue: str
    message: str


class ErrorGroupList(Whole[ErrorGroupView], frozen=True):
    """The error groups of your tenant, the latest first; at most 200 are kept."""


class ErrorGroupDetail(ErrorGroupView, frozen=True, kw_only=True):
    """With its dead letters that were not retried yet, up to 1,000."""

    letter_ids: tuple[Uuid, ...]
    has_more_letters: bool


class GroupOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """With ``dry_run`` the answer only says how many dead letters there are."""

    dry_run: bool = True
    why: Why | None = None


class GroupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters would be, or were, acted on.

    ``kept_count`` were not discarded, because other jobs depend on them.
    """

    is_dry_run: bool
    count: int
    kept_count: int = 0
    has_more: bool = False


async def get_error_groups(call: Call[Nothing, GroupChoice]) -> ErrorGroupList:
    """List failures in groups: the same kind, exception and place."""
    found = await list_error_groups(call.store, call.tenant, kind=call.query.kind)
    return ErrorGroupList(msgspec.convert(found, tuple[ErrorGroupView, ...], from_attributes=True))


async def get_error_group(call: Call[Nothing, Nothing]) -> ErrorGroupDetail:
    """Get one error group with its dead letters."""
    group, letters = await _find(call)
    return ErrorGroupDetail(
        **msgspec.structs.asdict(group), letter_ids=letters.ids, has_more_letters=letters.has_more
    )


async def retry_error_group(call: Call[GroupOrder, Nothing]) -> GroupAnswer:
    """Retry up to 1,000 dead letters of a group: a new job replaces each."""
    _, letters = await _find(call)
    if call.body.dry_run or not letters.jobs:
        return _answer(call, letters, len(letters.jobs))
    await call.admit(len(letters.jobs))
    retried = await retry_group(call.around, letters.ids, who=call.who, why=call.body.why)
    return _answer(call, letters, len(retried.replacements))


async def discard_error_group(call: Call[GroupOrder, Nothing]) -> GroupAnswer:
    """Delete up to 1,000 dead letters of a group with their attempts."""
    _, letters = await _find(call)
    if call.body.dry_run or not letters.jobs:
        return _answer(call, letters, len(letters.jobs))
    gone = await discard_group(call.around, letters.ids, who=call.who, why=call.body.why)
    return _answer(call, letters, gone.discarded_count, gone.kept_count)


async def _find(call: Call[Any, Nothing]) -> tuple[ErrorGroup, GroupLetters]:
    group = await find_error_group(call.store, call.tenant, call.path["group_id"])
    return group, await find_group_letters(call.around, group)


def _answer(
    call: Call[GroupOrder, Nothing], letters: GroupLetters, count: int, kept_count: int = 0
) -> GroupAnswer:
    return GroupAnswer(
        is_dry_run=call.body.dry_run,
        count=count,
        kept_count=kept_count,
        has_more=letters.has_more,
    )


_UNKNOWN = (404,)

_change = partial(route, tag="errors", errors=(404, 409))

ROUTES: tuple[Route, ...] = (
    route("GET", GROUPS, get_error_groups, Scope.READ, "errors"),
    route("GET", ONE_GROUP, get_error_group, Scope.READ, "errors", errors=_UNKNOWN),
    _change("POST", f"{ONE_GROUP}/retry", retry_error_group, Scope.OPERATE),
    _change("POST", f"{ONE_GROUP}/discard", discard_error_group, Scope.OPERATE),
)
