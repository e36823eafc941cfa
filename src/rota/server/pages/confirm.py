"""Asks for confirmation, then acts on the selected jobs."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import Response

from rota.errors import InvalidRequestError
from rota.jobs import Job, JobId, JobState, find_state
from rota.jobs.fields import normalize_job_id
from rota.jobs.search import HIGHEST_LIMIT
from rota.ops.bulk import MOST_BLOCKED, BulkAction, find_blocked, plan_bulk, plan_for
from rota.ops.bulk import carry_out as carry_out_plan
from rota.ops.search import search_jobs
from rota.rail import RetryPlan
from rota.rail.dead_letters import HIGHEST_RETRY, is_dead
from rota.search.query import JobQuery
from rota.server.pages.failures import ChosenLetters
from rota.server.pages.jobs import read_choice
from rota.server.pages.responses import go_to, render_page
from rota.server.pages.visit import Form, Visit

MOST_CHOSEN = HIGHEST_RETRY

_LONGEST_FILTER = 2_000

SAMPLE_SIZE = 10

GRAPH = "graph"
"""The page of a graph. Its filter names the job whose graph it is."""


class Origin(NamedTuple):
    """The page that a form was sent from, with its filters."""

    page: str
    filter: str
    job_id: JobId | None = None

    @property
    def menu_page(self) -> str:
        return "jobs" if self.page in {"", GRAPH} else self.page

    def link_back(self, visit: Visit, **query: object) -> str:
        drawn = normalize_job_id(self.read_filter().get("job", ""))
        if self.page == GRAPH and drawn is not None:
            return visit.link("jobs", drawn, "graph", **query)
        if self.page in {"jobs", "dead-letters"}:
            return visit.link(self.page, **self.read_filter(), **query)
        if self.job_id is not None:
            return visit.link("jobs", self.job_id, **query)
        return visit.link("jobs", **query)

    def read_filter(self) -> dict[str, str]:
        return dict(parse_qsl(self.filter))

    def as_query(self, visit: Visit) -> JobQuery:
        return read_choice(self.read_filter()).as_search(visit)


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
        wanted = ChosenLetters.read(origin.read_filter()).as_filter()
        plan = await visit.dead_letters.plan_retry(wanted, limit=MOST_CHOSEN)
        return await visit.find_jobs(plan.job_ids)
    query = origin.as_query(visit)
    found: list[Job] = []
    cursor: str | None = None
    while len(found) < MOST_CHOSEN:
        page = await search_jobs(
            visit.store, visit.tenant, query, cursor=cursor, limit=HIGHEST_LIMIT
        )
        found += [job for job in page.items if is_dead(job)]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:MOST_CHOSEN]


Hidden = list[tuple[str, str]]


class Action(NamedTuple):
    """What a bulk action is called, what it does, and to which jobs it applies."""

    verb: str
    consequence: str
    rule: str
    done: str
    is_harmless: bool = False


class Question(msgspec.Struct, frozen=True):
    """The question before an action.

    ``left_alone`` counts the selected jobs that the action does not apply to, by their state.
    """

    action: Action
    count: int
    samples: Sequence[Job]
    hidden: Hidden
    left_alone: Mapping[JobState, int]
    extra: str = ""
    blocked_count: int = 0


ACTIONS: dict[BulkAction, Action] = {
    "cancel": Action(
        "Cancel",
        "will be cancelled. The series of a cancelled job ends; its dependents are blocked. "
        "You can undo this for 15 minutes, except for series.",
        "Only a job that has not ended can be cancelled.",
        "cancelled",
    ),
    "restore": Action(
        "Restore",
        "will be submitted again, due as before. So will the jobs that they blocked.",
        "Only a cancelled job that does not recur can be restored.",
        "restored",
        is_harmless=True,
    ),
    "run_now": Action(
        "Run now",
        "will be due now, whatever their schedule says. Their next retry does not wait either.",
        "Only a job that waits for a later time can be made due now.",
        "run",
        is_harmless=True,
    ),
    "delete": Action(
        "Delete",
        "will be deleted with their attempts and results. This cannot be undone.",
        "A job that others depend on stays until they are gone.",
        "deleted",
    ),
}
RETRY = Action(
    "Retry",
    "will be retried: a new job replaces each.",
    "Only a job that failed can be retried.",
    "retried",
    is_harmless=True,
)
DISCARD = Action(
    "Discard",
    "will be deleted with all attempts. The audit log records it. This cannot be undone.",
    "Only a dead letter can be discarded.",
    "discarded",
)


async def confirm(visit: Visit, form: Form) -> Response:
    """Ask. Nothing changes yet; a plan may be stored for a while."""
    origin = read_origin(form)
    ask = form.choose("action", _QUESTIONS)
    question = await ask(visit, form, origin)
    came_from = [("from", origin.page), ("filter", origin.filter)]
    return await render_page(
        visit,
        "confirm.html",
        page=origin.menu_page,
        question=question,
        samples=question.samples[:SAMPLE_SIZE],
        hidden=[*came_from, *question.hidden],
        back=origin.link_back(visit),
    )


async def carry_out(visit: Visit, form: Form) -> Response:
    """Act on the confirmed jobs and go back to the list."""
    done = await form.choose("action", _ACTS)(visit, form)
    origin = read_origin(form)
    notice = msgspec.structs.asdict(done)
    if done.done == DISCARD.done and origin.job_id is not None and not origin.page:
        return go_to(visit.link("dead-letters", **notice))
    return go_to(origin.link_back(visit, **notice))


async def _ask_plan(visit: Visit, form: Form, origin: Origin, name: BulkAction) -> Question:
    """Plan the action on the selected jobs, or on all that match."""
    if form.one("everything") == "yes":
        plan = await plan_bulk(visit.around, name, origin.as_query(visit))
    else:
        plan = await plan_for(visit.around, name, read_ids(form))
    return Question(
        ACTIONS[name],
        plan.count,
        plan.sample,
        [("action", "plan"), ("plan", plan.id), *_name_origin(origin)],
        plan.passed_over,
        "More jobs match; this is the maximum for one action." if plan.has_more else "",
    )


async def _ask_retry(visit: Visit, form: Form, origin: Origin) -> Question:
    chosen = await _find_chosen(visit, form, origin)
    dead = [job for job in chosen if is_dead(job)]
    blocked = await find_blocked(visit.around, dead)
    hidden = [("action", "retry"), *(("id", job.id) for job in dead)]
    hidden += [("dependent", each.id) for each in blocked]
    others = _count_others(chosen, [*dead, *blocked], visit)
    return Question(RETRY, len(dead), dead, hidden, others, blocked_count=len(blocked))


async def _ask_discard(visit: Visit, form: Form, origin: Origin) -> Question:
    chosen = await _find_chosen(visit, form, origin)
    jobs = [job for job in chosen if is_dead(job)]
    hidden = [("action", "discard"), *(("id", job.id) for job in jobs)]
    return Question(DISCARD, len(jobs), jobs, hidden, _count_others(chosen, jobs, visit))


async def _find_chosen(visit: Visit, form: Form, origin: Origin) -> list[Job]:
    if form.one("everything") == "yes":
        return await find_all_dead(visit, origin)
    return await visit.find_jobs(read_ids(form))


def _name_origin(origin: Origin) -> Hidden:
    """The job whose page asked, so that the way leads back there."""
    return [("id", origin.job_id)] if origin.job_id is not None and not origin.page else []


def _count_others(
    chosen: Sequence[Job], fitting: Sequence[Job], visit: Visit
) -> dict[JobState, int]:
    kept = {job.id for job in fitting}
    return dict(Counter(find_state(job, visit.now) for job in chosen if job.id not in kept))


class Done(msgspec.Struct, frozen=True):
    """What was done to how many jobs, and the plan that undoes it."""

    done: str
    count: int
    undo: str | None = None


async def _carry_out_plan(visit: Visit, form: Form) -> Done:
    report = await carry_out_plan(
        visit.around, form.one("plan"), who=visit.who, why=form.one("why")
    )
    done = ACTIONS[report.action].done if report.done_count else "nothing"
    return Done(done, report.done_count, report.undo_plan_id)


async def _retry(visit: Visit, form: Form) -> Done:
    dependents = read_ids(form, "dependent") if form.one("cascade") == "yes" else []
    plan = RetryPlan(tuple(read_ids(form)), tuple(dependents))
    retried = await visit.dead_letters.retry(plan, who=visit.who, why=form.why)
    return Done(RETRY.done, len(retried.replacements))


async def _discard(visit: Visit, form: Form) -> Done:
    why = form.why
    count = await visit.dead_letters.discard(read_ids(form), who=visit.who, why=why)
    return Done(DISCARD.done, count)


_QUESTIONS: dict[str, Callable[[Visit, Form, Origin], Awaitable[Question]]] = {
    **{name: partial(_ask_plan, name=name) for name in ACTIONS},
    "retry": _ask_retry,
    "discard": _ask_discard,
}
_ACTS: dict[str, Callable[[Visit, Form], Awaitable[Done]]] = {
    "plan": _carry_out_plan,
    "retry": _retry,
    "discard": _discard,
}
