"""Asks for confirmation, then acts on the selected jobs."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import Response

from rota.errors import ConflictError, InvalidRequestError, JobNotFoundError
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.identity import normalize_job_id
from rota.jobs.search import HIGHEST_LIMIT
from rota.ops.bulk import carry_out as carry_out_plan
from rota.ops.bulk import plan_bulk
from rota.ops.search import search_jobs
from rota.rail import RetryPlan
from rota.rail.dead_letters import HIGHEST_RETRY, is_dead
from rota.search.query import JobQuery
from rota.server.pages.dead_letters import ChosenLetters
from rota.server.pages.jobs import read_choice
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.statuses import make_rows
from rota.server.pages.visit import Form, Visit, read_form

MOST_CHOSEN = HIGHEST_RETRY
MOST_BLOCKED = 1_000

_LONGEST_FILTER = 2_000

SAMPLE_SIZE = 10


class Origin(NamedTuple):
    """The page that a form was sent from, with its filters."""

    page: str
    filter: str
    job_id: JobId | None = None

    def link_back(self, visit: Visit, **query: object) -> str:
        """A link back to that page."""
        if self.page in {"jobs", "dead-letters"}:
            return visit.link(self.page, **dict(self.read_filter()), **query)
        if self.job_id is not None:
            return visit.link("jobs", self.job_id, **query)
        return visit.link("jobs", **query)

    def read_filter(self) -> list[tuple[str, str]]:
        return parse_qsl(self.filter)

    def as_query(self, visit: Visit) -> JobQuery:
        return read_choice(dict(self.read_filter())).as_search(visit)

    def as_letters(self) -> ChosenLetters:
        given = dict(self.read_filter())
        names = given.get("error", ""), given.get("kind", ""), given.get("queue", "")
        return ChosenLetters(*names, given.get("all") == "yes")


def read_origin(form: Form) -> Origin:
    filtered = form.one("filter")
    if len(filtered) > _LONGEST_FILTER:
        raise InvalidRequestError("filter", f"must have at most {_LONGEST_FILTER} characters")
    ids = form.several("id")
    job_id = normalize_job_id(ids[0]) if len(ids) == 1 else None
    return Origin(form.one("from"), filtered, job_id)


def read_ids(form: Form, name: str = "id") -> list[JobId]:
    """The job ids in the form, each once."""
    found: dict[JobId, None] = {}
    for text in form.several(name)[: MOST_CHOSEN + MOST_BLOCKED]:
        job_id = normalize_job_id(text)
        if job_id is None:
            raise InvalidRequestError(name, "must be a job id")
        found[job_id] = None
    return list(found)


async def find_all_dead(visit: Visit, origin: Origin) -> list[Job]:
    """Every dead letter that matches the filters, up to as many as one call retries."""
    if origin.page == "dead-letters":
        plan = await visit.dead_letters.plan_retry(
            origin.as_letters().as_filter(), limit=MOST_CHOSEN
        )
        return await visit.find_jobs(plan.job_ids)
    query = origin.as_query(visit)
    found: list[Job] = []
    cursor: str | None = None
    while len(found) < MOST_CHOSEN:
        page = await search_jobs(
            visit.context.store, visit.tenant, query, cursor=cursor, limit=HIGHEST_LIMIT
        )
        found += [job for job in page.items if is_dead(job)]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:MOST_CHOSEN]


async def find_blocked_by(visit: Visit, dead: Sequence[Job]) -> list[JobId]:
    """The jobs that these block, directly or through others."""
    found: dict[JobId, None] = {}
    left = [job.id for job in dead]
    while left and len(found) < MOST_BLOCKED:
        dependents = await visit.context.store.find_dependents(visit.tenant, left, MOST_BLOCKED)
        blocked = [job.id for job in dependents if job.status is JobStatus.BLOCKED]
        left = [each for each in blocked if each not in found]
        found.update(dict.fromkeys(left))
    return list(found)[:MOST_BLOCKED]


Hidden = list[tuple[str, str]]


class Question(msgspec.Struct, frozen=True):
    """The question before an action."""

    verb: str
    consequence: str
    count: int
    samples: Sequence[Job]
    hidden: Hidden
    extra: str = ""
    nothing: str = "The action applies to none of the selected jobs."
    is_harmless: bool = False
    blocked_count: int = 0


async def confirm(visit: Visit) -> Response:
    """Ask. Nothing changes yet; a plan may be stored for a while."""
    form = await read_form(visit.request)
    origin = read_origin(form)
    ask = _QUESTIONS.get(form.one("action"))
    if ask is None:
        raise InvalidRequestError("action", f"must be one of {', '.join(_QUESTIONS)}")
    question = await ask(visit, form, origin)
    came_from = [("from", origin.page), ("filter", origin.filter)]
    return render_page(
        visit,
        "confirm.html",
        page=origin.page or "jobs",
        question=question,
        samples=make_rows(question.samples[:SAMPLE_SIZE], visit.now),
        hidden=[*came_from, *question.hidden],
        back=origin.link_back(visit),
    )


async def carry_out(visit: Visit) -> Response:
    """Act on the confirmed jobs and go back to the list."""
    form = await read_form(visit.request)
    act = _ACTS.get(form.one("action"))
    if act is None:
        raise InvalidRequestError("action", f"must be one of {', '.join(_ACTS)}")
    done, count = await act(visit, form)
    origin = read_origin(form)
    if done == "discarded" and origin.job_id is not None and not origin.page:
        return go_to(visit.link("dead-letters", done=done, count=count))
    return go_to(origin.link_back(visit, done=done, count=count))


async def _ask_cancel(visit: Visit, form: Form, _: Origin) -> Question:
    jobs = [it for it in await visit.find_jobs(read_ids(form)) if not it.status.is_terminal]
    return Question(
        "Cancel",
        "will be cancelled. The series of a cancelled job ends; its dependents are blocked.",
        len(jobs),
        jobs,
        [("action", "cancel"), *(("id", job.id) for job in jobs)],
        nothing="All selected jobs have ended already.",
    )


async def _ask_cancel_all(visit: Visit, _: Form, origin: Origin) -> Question:
    plan = await plan_bulk(
        visit.context.rail_context(visit.tenant), "cancel", origin.as_query(visit)
    )
    return Question(
        "Cancel",
        "will be cancelled. The series of a cancelled job ends; its dependents are blocked.",
        plan.count,
        plan.sample,
        [("action", "plan"), ("plan", plan.id)],
        "More jobs match; this is the maximum for one action." if plan.has_more else "",
        "No job that matches the filters can be cancelled.",
    )


async def _ask_retry(visit: Visit, form: Form, _: Origin) -> Question:
    chosen = await visit.find_jobs(read_ids(form))
    return await _ask_about_dead(visit, [job for job in chosen if is_dead(job)])


async def _ask_retry_all(visit: Visit, _: Form, origin: Origin) -> Question:
    return await _ask_about_dead(visit, await find_all_dead(visit, origin))


async def _ask_about_dead(visit: Visit, dead: Sequence[Job]) -> Question:
    blocked = await find_blocked_by(visit, dead)
    hidden = [("action", "retry"), *(("id", job.id) for job in dead)]
    return Question(
        "Retry",
        "will be retried: a new job replaces each.",
        len(dead),
        dead,
        [*hidden, *(("dependent", each) for each in blocked)],
        nothing="None of the selected jobs can be retried: only failed jobs can.",
        is_harmless=True,
        blocked_count=len(blocked),
    )


async def _ask_discard(visit: Visit, form: Form, _: Origin) -> Question:
    jobs = [job for job in await visit.find_jobs(read_ids(form)) if is_dead(job)]
    return Question(
        "Discard",
        "will be deleted with all attempts. The audit log records it.",
        len(jobs),
        jobs,
        [("action", "discard"), *(("id", job.id) for job in jobs)],
    )


async def _cancel(visit: Visit, form: Form) -> tuple[str, int]:
    count = 0
    for job_id in read_ids(form):
        try:
            await visit.rail.cancel(job_id, who=visit.caller.who, why=form.one("why") or None)
            count += 1
        except (ConflictError, JobNotFoundError):
            continue  # it ended after the question was shown
    return ("cancelled" if count else "nothing"), count


async def _carry_out_plan(visit: Visit, form: Form) -> tuple[str, int]:
    report = await carry_out_plan(
        visit.context.rail_context(visit.tenant),
        form.one("plan"),
        who=visit.caller.who,
        why=form.one("why"),
    )
    return "cancelled", report.done_count


async def _retry(visit: Visit, form: Form) -> tuple[str, int]:
    dependents = read_ids(form, "dependent") if form.one("cascade") == "yes" else []
    plan = RetryPlan(tuple(read_ids(form)), tuple(dependents))
    retried = await visit.dead_letters.retry(
        plan, who=visit.caller.who, why=form.one("why") or None
    )
    return "retried", len(retried.replacements)


async def _discard(visit: Visit, form: Form) -> tuple[str, int]:
    why = form.one("why") or None
    return "discarded", await visit.dead_letters.discard(
        read_ids(form), who=visit.caller.who, why=why
    )


_QUESTIONS: dict[str, Callable[[Visit, Form, Origin], Awaitable[Question]]] = {
    "cancel": _ask_cancel,
    "cancel-all": _ask_cancel_all,
    "retry": _ask_retry,
    "retry-all": _ask_retry_all,
    "discard": _ask_discard,
}
_ACTS: dict[str, Callable[[Visit, Form], Awaitable[tuple[str, int]]]] = {
    "cancel": _cancel,
    "plan": _carry_out_plan,
    "retry": _retry,
    "discard": _discard,
}
