"""Dead letters: listed, inspected, retried and discarded."""

from typing import Annotated

import msgspec
from msgspec import Meta

from rota.auth.caller import Scope
from rota.errors import InvalidRequestError
from rota.jobs import Attempt
from rota.jobs.search import DEFAULT_LIMIT
from rota.rail import DeadLetterFilter, RetryPlan
from rota.rail.dead_letters import HIGHEST_RETRY
from rota.server.api.operating.word import Order, Why, letters_of, read_job
from rota.server.api.shapes.limited import PageCursor, PageLimit, QueueName, SearchText
from rota.server.api.shapes.words import Moment, Uuid
from rota.server.api.views import JobPage, JobView, view_job
from rota.server.routing.route import Call, Nothing, Route

LETTERS = "/api/v1/dead-letters"
ONE_LETTER = "/api/v1/dead-letters/{job_id}"


class LetterSearch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are wanted: those that fit everything that is said."""

    kind: Annotated[str | None, Meta(description="The jobs of this kind.")] = None
    queue: Annotated[str | None, Meta(description="The jobs of this queue.")] = None
    error_contains: Annotated[
        str | None, Meta(description="Whose last error has this text in it.")
    ] = None
    ended_after: Annotated[Moment | None, Meta(description="Given up then or later.")] = None
    ended_before: Annotated[Moment | None, Meta(description="Given up before then.")] = None
    with_discarded: Annotated[bool, Meta(description="Also those that their handler gave up.")] = (
        False
    )
    with_retried: Annotated[
        bool, Meta(description="Also those that another job stands in for already.")
    ] = False
    cursor: PageCursor = None
    limit: PageLimit = DEFAULT_LIMIT


class LetterView(msgspec.Struct, frozen=True):
    """A dead job with every attempt, the first one first."""

    job: JobView
    attempts: tuple[Attempt, ...]


class RetryOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead letters are to be tried again.

    With ``dry_run`` the answer says which ones fit the filters, and, with ``cascade``, which jobs
    they blocked. What it names is sent back as ``job_ids`` and ``dependent_ids`` to be done.
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
    """What would be tried again, or which new job now stands for which old one.

    Of ``earlier_ids``, old ones, the new job was there before: they had been retried already.
    """

    is_dry_run: bool
    job_ids: tuple[Uuid, ...] = ()
    dependent_ids: tuple[Uuid, ...] = ()
    has_more: bool = False
    replacements: dict[str, Uuid] = {}
    earlier_ids: tuple[Uuid, ...] = ()


class DiscardAnswer(msgspec.Struct, frozen=True):
    """How many are forgotten."""

    discarded_count: int


async def list_dead_letters(call: Call[Nothing, LetterSearch]) -> JobPage:
    """List jobs that were tried as often as they may be, the newest first."""
    asked = call.query
    wanted = DeadLetterFilter(
        kind=asked.kind,
        queue=asked.queue,
        error_contains=asked.error_contains,
        ended_after=asked.ended_after,
        ended_before=asked.ended_before,
        with_discarded=asked.with_discarded,
        with_retried=asked.with_retried,
    )
    page = await letters_of(call).list(wanted, cursor=asked.cursor, limit=asked.limit)
    ids = [each.job_id for each in page.items]
    found = await call.around.store.get(call.caller.tenant, ids)
    shown = [view_job(found[job_id]) for job_id in ids if job_id in found]
    return JobPage(shown, page.next_cursor, page.next_cursor is not None)


async def inspect_dead_letter(call: Call[Nothing, Nothing]) -> LetterView:
    """Get one dead letter with all its attempts: error, worker, beginning and end of each."""
    letter = await letters_of(call).inspect(call.path["job_id"])
    return LetterView(view_job(await read_job(call)), letter.attempts)


async def retry_dead_letters(call: Call[RetryOrder, Nothing]) -> RetryAnswer:
    """Retry dead letters, up to 1,000 in one step, with or without what they blocked.

    First as a dry run, by filters; then by what that has named, to the letter.
    """
    asked, letters = call.body, letters_of(call)
    if not asked.dry_run:
        if not asked.job_ids:
            raise InvalidRequestError("job_ids", "is missing: a dry run names them")
        await call.around.make_room(call.caller.tenant, len(asked.job_ids))
        plan = RetryPlan(tuple(asked.job_ids), tuple(asked.dependent_ids))
        retried = await letters.retry(plan, who=call.caller.who, why=asked.why)
        return RetryAnswer(
            is_dry_run=False,
            replacements=retried.replacements,
            earlier_ids=retried.earlier_ids,
        )
    if asked.job_ids or asked.dependent_ids:
        field = "job_ids" if asked.job_ids else "dependent_ids"
        raise InvalidRequestError(field, "cannot be given for a dry run, which goes by filters")
    wanted = DeadLetterFilter(
        kind=asked.kind,
        queue=asked.queue,
        error_contains=asked.error_contains,
        with_discarded=asked.with_discarded,
    )
    plan = await letters.plan_retry(wanted, cascade=asked.cascade)
    return RetryAnswer(
        is_dry_run=True,
        job_ids=plan.job_ids,
        dependent_ids=plan.dependent_ids,
        has_more=plan.has_more,
    )


async def discard_dead_letter(call: Call[Order, Nothing]) -> DiscardAnswer:
    """Forget a dead letter for good, with its attempts; the audit log keeps its error.

    409 when another job depends on it.
    """
    count = await letters_of(call).discard(
        [call.path["job_id"]], who=call.caller.who, why=call.body.why
    )
    return DiscardAnswer(count)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path=LETTERS,
        handler=list_dead_letters,
        scope=Scope.READ,
        tag="dead letters",
        query=LetterSearch,
        answers={200: JobPage},
    ),
    Route(
        method="POST",
        path=f"{LETTERS}/retry",
        handler=retry_dead_letters,
        scope=Scope.OPERATE,
        tag="dead letters",
        body=RetryOrder,
        answers={200: RetryAnswer},
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path=ONE_LETTER,
        handler=inspect_dead_letter,
        scope=Scope.READ,
        tag="dead letters",
        answers={200: LetterView},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path=ONE_LETTER,
        handler=discard_dead_letter,
        scope=Scope.OPERATE,
        tag="dead letters",
        body=Order,
        answers={200: DiscardAnswer},
        errors=(404, 409),
    ),
)
