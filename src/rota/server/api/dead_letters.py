"""Dead letters: list, inspect, retry and discard."""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs import Attempt
from rota.jobs.search import DEFAULT_LIMIT
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
    Why,
    read_job,
)
from rota.server.api.jobs import JobPage, JobView, view_job
from rota.server.http.route import Call, Nothing, Route, route

LETTERS = "/api/v1/dead-letters"
ONE_LETTER = "/api/v1/dead-letters/{job_id}"


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


async def inspect_dead_letter(call: Call[Nothing, Nothing]) -> LetterView:
    """Get one dead letter with the error, worker, start and end of each attempt."""
    letters = call.dead_letters
    letter = await letters.inspect(call.path["job_id"])
    return LetterView(view_job(await read_job(call)), letter.attempts)


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


async def discard_dead_letter(call: Call[Order, Nothing]) -> DiscardAnswer:
    """Delete a dead letter with its attempts. The audit log keeps its error.

    409 when another job depends on it.
    """
    count = await call.dead_letters.discard([call.path["job_id"]], who=call.who, why=call.body.why)
    return DiscardAnswer(count)


_change = partial(route, tag="dead letters", errors=(404, 409))

ROUTES: tuple[Route, ...] = (
    route("GET", LETTERS, list_dead_letters, Scope.READ, "dead letters"),
    _change("POST", f"{LETTERS}/retry", retry_dead_letters, Scope.OPERATE),
    route("GET", ONE_LETTER, inspect_dead_letter, Scope.READ, "dead letters", errors=(404,)),
    _change("DELETE", ONE_LETTER, discard_dead_letter, Scope.OPERATE),
)
