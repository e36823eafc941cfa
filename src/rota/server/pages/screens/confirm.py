"""Between a button and its deed: how many jobs it concerns, which, and whether it is meant."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from starlette.responses import Response

from rota.errors import ConflictError, InvalidRequestError, JobNotFoundError
from rota.jobs import Job
from rota.ops.bulk import carry_out as carry_out_plan
from rota.ops.bulk import plan_bulk
from rota.rail import DeadLetters, Rail, RetryPlan
from rota.rail.dead_letters import is_dead
from rota.server.pages.screens.choice import (
    Origin,
    find_all_dead,
    find_blocked_by,
    rail_around,
    read_ids,
    read_jobs,
    read_origin,
)
from rota.server.pages.serving.answers import go_to, render_page
from rota.server.pages.serving.forms import Form, read_form
from rota.server.pages.serving.visit import Visit
from rota.server.pages.wording.rows import make_rows

SAMPLE_SIZE = 10

Hidden = list[tuple[str, str]]


class Question(msgspec.Struct, frozen=True):
    """What is asked before anything is done."""

    verb: str
    consequence: str
    count: int
    samples: Sequence[Job]
    hidden: Hidden
    extra: str = ""
    nothing: str = "None of the chosen jobs is in a state in which there is any sense in it."
    is_mild: bool = False
    blocked_count: int = 0


async def confirm(visit: Visit) -> Response:
    """Ask. Nothing is done yet, except that a plan may be remembered for a while."""
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
    """Do what was asked about, to the jobs that were shown, and go back to the list."""
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
    jobs = [it for it in await read_jobs(visit, read_ids(form)) if not it.status.is_terminal]
    return Question(
        "Cancel",
        "will not run any more. A series ends with its job; what depends on it is blocked.",
        len(jobs),
        jobs,
        [("action", "cancel"), *(("id", job.id) for job in jobs)],
        nothing="All of the chosen jobs have ended already.",
    )


async def _ask_cancel_all(visit: Visit, _: Form, origin: Origin) -> Question:
    plan = await plan_bulk(rail_around(visit), "cancel", origin.as_query(visit))
    return Question(
        "Cancel",
        "will not run any more. Series end with their jobs; what depends on them is blocked.",
        plan.count,
        plan.sample,
        [("action", "plan"), ("plan", plan.id)],
        "There are more: this is as many as are cancelled at once." if plan.has_more else "",
        "No job that the filter lets through is still to run.",
    )


async def _ask_retry(visit: Visit, form: Form, _: Origin) -> Question:
    chosen = await read_jobs(visit, read_ids(form))
    return await _ask_about_dead(visit, [job for job in chosen if is_dead(job)])


async def _ask_retry_all(visit: Visit, _: Form, origin: Origin) -> Question:
    return await _ask_about_dead(visit, await find_all_dead(visit, origin))


async def _ask_about_dead(visit: Visit, dead: Sequence[Job]) -> Question:
    blocked = await find_blocked_by(visit, dead)
    hidden = [("action", "retry"), *(("id", job.id) for job in dead)]
    return Question(
        "Retry",
        "will be tried again: a new job takes the place of each.",
        len(dead),
        dead,
        [*hidden, *(("dependent", each) for each in blocked)],
        nothing="Only jobs that failed for good can be retried, and none of these did.",
        is_mild=True,
        blocked_count=len(blocked),
    )


async def _ask_discard(visit: Visit, form: Form, _: Origin) -> Question:
    jobs = [job for job in await read_jobs(visit, read_ids(form)) if is_dead(job)]
    return Question(
        "Discard",
        "will be forgotten for good, with all attempts. The audit log remembers that it was done.",
        len(jobs),
        jobs,
        [("action", "discard"), *(("id", job.id) for job in jobs)],
    )


async def _cancel(visit: Visit, form: Form) -> tuple[str, int]:
    rail = Rail(visit.around.store, visit.tenant, clock=visit.around.clock)
    count = 0
    for job_id in read_ids(form):
        try:
            await rail.cancel(job_id, who=visit.caller.who, why=form.one("why") or None)
            count += 1
        except (ConflictError, JobNotFoundError):
            continue  # it ended between the question and the deed: there is nothing left to do
    return ("cancelled" if count else "nothing"), count


async def _carry_out_plan(visit: Visit, form: Form) -> tuple[str, int]:
    report = await carry_out_plan(
        rail_around(visit), form.one("plan"), who=visit.caller.who, why=form.one("why")
    )
    return "cancelled", report.done_count


async def _retry(visit: Visit, form: Form) -> tuple[str, int]:
    letters = DeadLetters(visit.around.store, visit.tenant, clock=visit.around.clock)
    dependents = read_ids(form, "dependent") if form.one("cascade") == "yes" else []
    plan = RetryPlan(tuple(read_ids(form)), tuple(dependents))
    retried = await letters.retry(plan, who=visit.caller.who, why=form.one("why") or None)
    return "retried", len(retried.replacements)


async def _discard(visit: Visit, form: Form) -> tuple[str, int]:
    letters = DeadLetters(visit.around.store, visit.tenant, clock=visit.around.clock)
    why = form.one("why") or None
    return "discarded", await letters.discard(read_ids(form), who=visit.caller.who, why=why)


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
