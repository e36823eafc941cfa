"""Failures: dead letters, and error groups of the same kind, exception and place."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs import Attempt
from rota.jobs.search import DEFAULT_LIMIT
from rota.ops.error_groups import (
    GroupLetters,
    discard_group,
    find_error_group,
    find_group_letters,
    list_error_groups,
    retry_group,
)
from rota.rail import DeadLetterFilter, RetryPlan
from rota.rail.dead_letters import HIGHEST_RETRY
from rota.server.api.fields import (
    Moment,
    Order,
    PageCursor,
    PageLimit,
    QueueName,
    SearchText,
    Uuid,
    Whole,
    Why,
    read_job,
)
from rota.server.api.job_bodies import JobPage, JobView, view_job
from rota.server.http.route import Call, Nothing, Resource
from rota.telemetry.error_groups import ErrorGroup

LETTERS = Resource("/api/v1/dead-letters", "dead letters")


class LetterSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters. A dead letter must match all of them."""

    kind: Annotated[str | None, Meta(description="Jobs of this kind.")] = None
    queue: Annotated[str | None, Meta(description="Jobs in this queue.")] = None
    error_contains: Annotated[
        str | None, Meta(description="Jobs whose last error contains this text.")
    ] = None
    ended_after: Annotated[Moment | None, Meta(description="Failed then or later.")] = None
    ended_before: Annotated[Moment | None, Meta(description="Failed before then.")] = None
    with_discarded: Annotated[
        bool, Meta(description="Include jobs that their handler discarded.")
    ] = False
    with_retried: Annotated[
        bool, Meta(description="Include jobs that were retried by a new job.")
    ] = False
    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class LetterView(msgspec.Struct, frozen=True):
    """A dead job with every attempt, first one first."""

    job: JobView
    attempts: tuple[Attempt, ...]


class RetryOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters to retry.

    With ``dry_run`` the answer names the jobs that match the filters and, with ``cascade``, the
    jobs they blocked. Send these back as ``job_ids`` and ``dependent_ids`` to retry them.
    """

    dry_run: bool = True
    job_ids: Annotated[list[Uuid], Meta(max_length=HIGHEST_RETRY)] = []
    dependent_ids: Annotated[list[Uuid], Meta(max_length=HIGHEST_RETRY)] = []
    why: Why | None = None
    kind: SearchText | None = None
    queue: QueueName | None = None
    error_contains: SearchText | None = None
    with_discarded: bool = False
    cascade: bool = False


class RetryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that would be retried, or the new id for each old id.

    The old jobs in ``earlier_ids`` had been retried before, and keep that replacement.
    """

    is_dry_run: bool
    job_ids: tuple[Uuid, ...] = ()
    dependent_ids: tuple[Uuid, ...] = ()
    has_more: bool = False
    replacements: dict[str, Uuid] = {}
    earlier_ids: tuple[Uuid, ...] = ()


class DiscardAnswer(msgspec.Struct, frozen=True):
    """The number of deleted jobs."""

    discarded_count: int


@LETTERS.route("GET", "", Scope.READ)
async def list_dead_letters(call: Call[Nothing, LetterSearch]) -> JobPage:
    """List jobs that have used up their attempts, newest first."""
    asked = call.query
    wanted = msgspec.convert(asked, DeadLetterFilter, from_attributes=True)
    letters = call.dead_letters
    page = await letters.list(wanted, cursor=asked.cursor, limit=asked.limit)
    ids = [each.job_id for each in page.items]
    found = await call.store.get(call.tenant, ids)
    shown = [view_job(found[job_id]) for job_id in ids if job_id in found]
    return JobPage(shown, page.next_cursor, page.next_cursor is not None)


@LETTERS.route("POST", "/retry", Scope.OPERATE, errors=(404, 409))
async def retry_dead_letters(call: Call[RetryOrder, Nothing]) -> RetryAnswer:
    """Retry up to 1,000 dead letters in one step, with or without the jobs they blocked.

    A dry run by filters comes first. The second request retries exactly the jobs it names.
    """
    asked = call.body
    if not asked.dry_run:
        return await _retry(call)
    if asked.job_ids or asked.dependent_ids:
        field = "job_ids" if asked.job_ids else "dependent_ids"
        raise InvalidRequestError(field, "cannot be given for a dry run, which uses filters")
    wanted = msgspec.convert(asked, DeadLetterFilter, from_attributes=True)
    letters = call.dead_letters
    plan = await letters.plan_retry(wanted, cascade=asked.cascade)
    return RetryAnswer(is_dry_run=True, **msgspec.structs.asdict(plan))


async def _retry(call: Call[RetryOrder, Nothing]) -> RetryAnswer:
    asked = call.body
    if not asked.job_ids:
        raise InvalidRequestError("job_ids", "is missing: a dry run names them")
    await call.admit(len(asked.job_ids))
    plan = RetryPlan(tuple(asked.job_ids), tuple(asked.dependent_ids))
    retried = await call.dead_letters.retry(plan, who=call.who, why=asked.why)
    return RetryAnswer(
        is_dry_run=False, replacements=retried.replacements, earlier_ids=retried.earlier_ids
    )


@LETTERS.route("GET", "/{job_id}", Scope.READ, errors=(404,))
async def inspect_dead_letter(call: Call[Nothing, Nothing]) -> LetterView:
    """Get one dead letter with the error, worker, start and end of each attempt."""
    letters = call.dead_letters
    letter = await letters.inspect(call.path["job_id"])
    return LetterView(view_job(await read_job(call)), letter.attempts)


@LETTERS.route("DELETE", "/{job_id}", Scope.OPERATE, errors=(404, 409))
async def discard_dead_letter(call: Call[Order, Nothing]) -> DiscardAnswer:
    """Delete a dead letter with its attempts. The audit log keeps its error.

    409 when another job depends on it.
    """
    count = await call.dead_letters.discard([call.path["job_id"]], who=call.who, why=call.body.why)
    return DiscardAnswer(count)


ERRORS = Resource("/api/v1/errors", "errors")


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


@ERRORS.route("GET", "", Scope.READ)
async def get_error_groups(call: Call[Nothing, GroupChoice]) -> ErrorGroupList:
    """List failures in groups: the same kind, exception and place."""
    found = await list_error_groups(call.store, call.tenant, kind=call.query.kind)
    return ErrorGroupList(msgspec.convert(found, tuple[ErrorGroupView, ...], from_attributes=True))


@ERRORS.route("GET", "/{group_id}", Scope.READ, errors=(404,))
async def get_error_group(call: Call[Nothing, Nothing]) -> ErrorGroupDetail:
    """Get one error group with its dead letters."""
    group, letters = await _find(call)
    return ErrorGroupDetail(
        **msgspec.structs.asdict(group), letter_ids=letters.ids, has_more_letters=letters.has_more
    )


@ERRORS.route("POST", "/{group_id}/retry", Scope.OPERATE, errors=(404, 409))
async def retry_error_group(call: Call[GroupOrder, Nothing]) -> GroupAnswer:
    """Retry up to 1,000 dead letters of a group: a new job replaces each."""
    _, letters = await _find(call)
    if call.body.dry_run or not letters.jobs:
        return _answer(call, letters, len(letters.jobs))
    await call.admit(len(letters.jobs))
    retried = await retry_group(call.around, letters.ids, who=call.who, why=call.body.why)
    return _answer(call, letters, len(retried.replacements))


@ERRORS.route("POST", "/{group_id}/discard", Scope.OPERATE, errors=(404, 409))
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
        is_dry_run=call.body.dry_run, count=count, kept_count=kept_count, has_more=letters.has_more
    )
