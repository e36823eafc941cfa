"""Queues and workers: numbers, pause and resume, limits, and what runs now."""

from datetime import timedelta
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from rota.auth.caller import Scope
from rota.clock.duration import read_duration
from rota.errors import ForbiddenError, InvalidInputError, InvalidRequestError, NotFoundError
from rota.jobs import JobState
from rota.jobs.fields import read_queue
from rota.jobs.job_state import NOT_DUE
from rota.ops.polled import list_pollers_of
from rota.ops.queues import (
    QueueReport,
    Whose,
    find_queue,
    list_queues,
    set_queue_paused,
    survey_workers,
)
from rota.policy.limits import Limit, Rate, key_of
from rota.rail.settings import clear_limit, list_limits, set_limit
from rota.server.pages.charts import draw_spark
from rota.server.pages.ranges import count_ended, draw_throughput, read_spans
from rota.server.pages.responses import go_to, render_page, stream_page
from rota.server.pages.statuses import LATE, NO_WORKER, SIGNS, Sign, sign_of
from rota.server.pages.visit import Form, Visit

_RED_FIRST = [NO_WORKER, SIGNS[JobState.STALLED], LATE, SIGNS[JobState.PAUSED]]


async def read_queues(visit: Visit) -> dict[str, Any]:
    found = await visit.cached(
        "queues", lambda: list_queues(visit.store, visit.clock, visit.tenant)
    )
    ended = count_ended((await read_spans(visit)).stats, lambda part: part.queue)
    queues = sorted(found, key=lambda it: (_rank(sign_of(it, visit.now)), it.queue))
    return {
        "rows": [(it, draw_spark(ended[it.queue]), _list_actions(visit, it)) for it in queues],
        "not_due": ",".join(NOT_DUE),
    }


def _list_actions(visit: Visit, queue: QueueReport) -> list[str]:
    """What the caller may do with the queue in the list."""
    if not queue.pauses:
        return ["pause"]
    may_resume = visit.may_administer or any(it.whose == "own" for it in queue.pauses)
    return ["resume"] if may_resume else []


def _rank(sign: Sign) -> int:
    """What is red comes first."""
    return [*_RED_FIRST, sign].index(sign)


async def show_queue(visit: Visit) -> Response:
    queue = await _find(visit)
    return await stream_page(visit, "queue.html", lambda: _read_queue(visit, queue), queue=queue)


async def _find(visit: Visit) -> QueueReport:
    name = visit.part("queue")
    try:
        return await find_queue(visit.store, visit.clock, visit.tenant, name)
    except InvalidInputError as error:
        raise NotFoundError("This queue does not exist.") from error


async def _read_queue(visit: Visit, queue: QueueReport, problem: str = "") -> dict[str, Any]:
    name, spans = queue.queue, await read_spans(visit)
    ours = spans.only(lambda part: part.queue == name)
    return {
        "not_due": ",".join(NOT_DUE),
        "chart": draw_throughput(ours, is_whole=False),
        "spans": spans,
        "own_pause": next((it for it in queue.pauses if it.whose == "own"), None),
        "wide_pause": next((it for it in queue.pauses if it.whose == "all"), None),
        "limits": {limit.whose: limit for limit in queue.limits},
        "problem": problem,
    }


class PauseOrder(NamedTuple):
    """Pause or resume queues of the tenant, or of all tenants, for one reason."""

    action: str
    whose: Whose
    why: str

    def applies_to(self, queue: QueueReport) -> bool:
        """Whether a queue that was selected in the list changes."""
        if self.action == "pause":
            return not queue.pauses
        return any(it.whose == self.whose for it in queue.pauses)

    async def carry_out(self, visit: Visit, queue: str) -> None:
        await set_queue_paused(
            visit.around,
            queue,
            self.whose,
            paused=self.action == "pause",
            who=visit.who,
            why=self.why,
        )


def _read_order(form: Form, visit: Visit) -> PauseOrder:
    whose, action = _read_whose(form, visit), form.one("action")
    if action not in {"pause", "resume"}:
        raise InvalidRequestError("action", "must be pause or resume")
    return PauseOrder(action, whose, form.one("why"))


async def change_queue(visit: Visit, form: Form) -> Response:
    """Pause or resume a queue of the tenant, or of all tenants."""
    order = _read_order(form, visit)
    name = read_queue(visit.part("queue"))
    await order.carry_out(visit, name)
    return go_to(visit.link("queues", name, done=f"queue-{order.action}d"))


async def change_queues(visit: Visit, form: Form) -> Response:
    """Pause or resume the selected queues, each with its own entry in the audit log."""
    order, chosen = _read_order(form, visit), set(form.several("id"))
    listed = await list_queues(visit.store, visit.clock, visit.tenant)
    names = [it.queue for it in listed if it.queue in chosen and order.applies_to(it)]
    for name in names:
        await order.carry_out(visit, name)
    done = f"queue-{order.action}d" if names else "queue-unchanged"
    return go_to(visit.link("queues", done=done, count=len(names)))


async def change_limit(visit: Visit, form: Form) -> Response:
    """Set or clear the limits of a queue."""
    name, whose = read_queue(visit.part("queue")), _read_whose(form, visit)
    tenant = visit.tenant if whose == "own" else None
    store, clock, who = visit.store, visit.clock, visit.who
    why = form.why
    if form.one("action") == "clear":
        await clear_limit(store, tenant=tenant, queue=name, who=who, why=why, clock=clock)
        return go_to(visit.link("queues", name, done="limit-cleared"))
    try:
        limit = _read_limit(form, tenant, name)
        limit = await _keep_ageing(visit, limit)
    except InvalidInputError as error:
        queue = await _find(visit)
        values = await _read_queue(visit, queue, error.message)
        return await render_page(visit, "queue.html", status=400, queue=queue, **values)
    await set_limit(store, limit, who=who, why=why, clock=clock)
    return go_to(visit.link("queues", name, done="limit-set"))


def _read_whose(form: Form, visit: Visit) -> Whose:
    if form.one("whose", "own") != "all":
        return "own"
    if not visit.may_administer:
        raise ForbiddenError(Scope.ADMIN)
    return "all"


def _read_limit(form: Form, tenant: str | None, queue: str) -> Limit:
    count = form.number("rate_count")
    rate = None
    if count is not None:
        per = _read_length(form, "rate_per", "1m")
        rate = Rate(count=count, per=per, burst=form.number("rate_burst"))
    return Limit(tenant=tenant, queue=queue, running=form.number("running"), rate=rate)


async def _keep_ageing(visit: Visit, limit: Limit) -> Limit:
    """The form has no field for it."""
    kept = {key_of(it.tenant, it.queue): it for it in (await list_limits(visit.store)).limits}
    found = kept.get(key_of(limit.tenant, limit.queue))
    return limit if found is None else msgspec.structs.replace(limit, ageing=found.ageing)


def _read_length(form: Form, name: str, default: str) -> timedelta:
    text = form.one(name) or default
    try:
        return read_duration(text, name)
    except InvalidInputError as error:
        reason = f'must be a length of time such as 90s or 1h30m, got "{text:.40}"'
        raise InvalidRequestError(name, reason) from error


async def read_workers(visit: Visit) -> dict[str, Any]:
    store = visit.store
    found = await survey_workers(store, visit.tenant, visit.now)
    return {
        "workers": found.workers,
        "room": sum(each.worker.concurrency for each in found.workers),
        "running": found.running,
        "ahead_count": found.ahead_count,
        "has_more": found.has_more,
        "pollers": await list_pollers_of(store, visit.now, visit.tenant),
    }
