"""The page of one job: state, explanation, timeline, graph, facts and actions."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from rota.auth.caller import Scope
from rota.auth.masking import mask_secrets
from rota.errors import NotFoundError
from rota.jobs import BackoffStrategy, Job, JobId, JobStatus, RetryPolicy
from rota.ops.audit import find_audit_entries
from rota.ops.explain import explain_job
from rota.ops.retention import read_retention
from rota.rail.dead_letters import is_dead
from rota.server.pages.formats import (
    Branch,
    Lines,
    format_length,
    format_local,
    grow_tree,
    read_number,
    show_json,
)
from rota.server.pages.graph import MOST_BESIDE, find_drawing
from rota.server.pages.kinds import USUAL_RANGE, find_usual_run, is_unusual
from rota.server.pages.responses import go_to, stream_page
from rota.server.pages.statuses import sign_of
from rota.server.pages.timeline import make_strip, make_timeline
from rota.server.pages.visit import Form, Visit, find_job
from rota.telemetry.stats import DurationStats
from rota.triggers.zone import load_zone
from rota.worker.progress import read_progress

_BACKOFFS = {
    BackoffStrategy.FIXED: "{base} apart",
    BackoffStrategy.LINEAR: "{base} apart, growing linearly up to {longest}",
    BackoffStrategy.EXPONENTIAL: "{base} apart, doubling up to {longest}",
    BackoffStrategy.LADDER: "after {rungs}",
}
_MOST_REASONS = 20

Link = Callable[..., str]


class Fact(NamedTuple):
    """A name and its value: a text, a link or an instant."""

    name: str
    value: str = ""
    link: str = ""
    at: datetime | None = None
    note: str = ""


def list_facts(job: Job, link: Link) -> list[Fact]:
    return [
        Fact("Queue", job.queue, link("jobs", queue=job.queue)),
        Fact("Kind", job.kind, link("jobs", q=f"kind:{job.kind}")),
        Fact("Tenant", job.tenant),
        Fact("Priority", f"{job.priority} of 10"),
        Fact("Due", at=job.due_at),
        Fact("Created", at=job.created_at),
        Fact("Changed", at=job.updated_at),
        Fact(
            "Attempts",
            f"{job.attempt_count} of {job.retry_policy.max_attempts} failed",
            note=describe_policy(job.retry_policy),
        ),
        *_list_lease(job),
        *_list_series(job, link),
        *_list_names(job, link),
    ]


def describe_policy(policy: RetryPolicy) -> str:
    if policy.max_attempts == 1:
        return "one attempt, no retry"
    form = _BACKOFFS[policy.backoff_strategy]
    return form.format(
        base=_seconds(policy.base_delay_seconds),
        longest=_seconds(policy.max_delay_seconds),
        rungs=", ".join(_seconds(each) for each in policy.ladder_seconds),
    )


def _list_lease(job: Job) -> Iterator[Fact]:
    if job.lease is not None:
        yield Fact("Worker", job.lease.worker)
        yield Fact("Lease until", at=job.lease.until, note=f"token {job.lease.token}")


def _list_series(job: Job, link: Link) -> Iterator[Fact]:
    recurrence = job.recurrence
    if recurrence is None:
        return
    yield Fact("Recurs", recurrence.text, note=recurrence.zone)
    if job.occurrence_at is not None:
        local = format_local(job.occurrence_at, load_zone(recurrence.zone))
        yield Fact("Occurrence", local)
    yield Fact("Series", "all runs", link("schedules", "series", job.origin or job.id))
    if job.missed_count:
        yield Fact("Missed", f"{job.missed_count} occurrences before it")
    yield Fact("Overlap", recurrence.overlap)
    yield Fact("Catch-up", recurrence.catch_up)
    if recurrence.jitter is not None:
        yield Fact("Jitter", f"up to {recurrence.jitter}")
    if recurrence.alert_after is not None:
        yield Fact("Alert", f"if none has succeeded {recurrence.alert_after} after it was due")


def _list_names(job: Job, link: Link) -> Iterator[Fact]:
    if job.idempotency_key is not None:
        yield Fact("Idempotency key", job.idempotency_key)
    if job.replaces is not None:
        yield Fact("Replaces", "the failed job", link("jobs", job.replaces))
    if job.auto_remove:
        yield Fact("When completed", "deleted")
    if job.trace is not None:
        yield Fact("Trace", job.trace)


def _seconds(count: int) -> str:
    return format_length(timedelta(seconds=count))


class Action(NamedTuple):
    """A button: the target of its form, the fields it sends, and its style; or a link to a form."""

    label: str
    target: str
    sent: tuple[tuple[str, str], ...] = ()
    look: str = ""
    is_link: bool = False


class Value(NamedTuple):
    """A JSON value with its secrets masked, as a tree and as text."""

    name: str
    tree: Branch
    text: Lines
    is_masked: bool


async def show_job(visit: Visit) -> Response:
    job = await find_job(visit)
    return await stream_page(visit, "job.html", lambda: _read(visit, job), job=job)


async def _read(visit: Visit, job: Job) -> dict[str, Any]:
    store = visit.store
    attempts = await store.attempts(visit.tenant, job.id)
    explanation = await explain_job(store, visit.clock, visit.tenant, job.id)
    progress = await read_progress(store, [job])
    usual = await find_usual_run(visit, job.kind)
    return {
        "sign": sign_of(job, visit.now),
        "explanation": explanation,
        "reasons": [it for it in explanation.reasons if it.code != "attempt"],
        "most_reasons": _MOST_REASONS,
        "actions": list(_list_actions(visit, job)),
        "steps": make_timeline(job, attempts, visit.now, read_number(visit.ask("attempt"), 4)),
        "strip": make_strip(job, attempts, visit.now),
        "attempts": attempts,
        "usual": usual,
        "usual_range": USUAL_RANGE,
        "is_slow": usual is not None and _runs_longer(job, usual, visit.now),
        "drawing": await find_drawing(visit, job, MOST_BESIDE),
        "values": await _show_values(visit, job),
        "progress": progress.get(job.id),
        "acts": await find_audit_entries(store, visit.tenant, [job.id], job.created_at),
        "facts": [*list_facts(job, visit.link), *await _list_removal(visit, job)],
    }


def _runs_longer(job: Job, usual: DurationStats, now: datetime) -> bool:
    return job.lease is not None and is_unusual(now - job.lease.taken_at, usual)


async def _show_values(visit: Visit, job: Job) -> list[Value]:
    """The payload, and the result if one was kept."""
    results = await visit.store.results(visit.tenant, [job.id])
    shown = [_show_value(visit, "Payload", job.payload)]
    if job.id in results:
        shown.append(_show_value(visit, "Result", msgspec.json.decode(results[job.id])))
    return shown


def _show_value(visit: Visit, name: str, value: Any) -> Value:
    masked = mask_secrets(value, visit.context.masked_words)
    return Value(name, grow_tree(masked, name.lower()), show_json(masked), masked != value)


async def _list_removal(visit: Visit, job: Job) -> list[Fact]:
    """When retention removes a job that has ended, and where that is said."""
    if not job.status.is_terminal:
        return []
    current = await read_retention(visit.around)
    at, link = current.removal_of(job), visit.link("retention")
    if at is None:
        return [Fact("Removed", "never, by the rules of retention", link)]
    note = "once no job depends on it" if at > visit.now else "due now, once no job depends on it"
    return [Fact("Removed on", at=at, note=note), Fact("Retention", "rules", link)]


async def carry_out_verb(visit: Visit, job_id: JobId, form: Form) -> str:
    """Do what the path says to a job or its series. Returns the name of the notice."""
    rail, verb = visit.rail, visit.part("verb")
    if verb == "run-now":
        await rail.run_now(job_id, who=visit.who, why=form.why)
        return "run"
    if verb == "pause":
        await rail.pause(job_id, who=visit.who, why=form.why)
        return "paused"
    if verb != "resume":
        raise NotFoundError("This page does not exist.")
    catch_up = form.one("catch_up") == "yes"
    await rail.resume(job_id, catch_up=catch_up, who=visit.who, why=form.why)
    return "resumed"


async def act_on_job(visit: Visit, form: Form) -> Response:
    """Run the job now, or pause or resume its series."""
    job = await find_job(visit)
    done = await carry_out_verb(visit, job.id, form)
    if form.one("back") == "schedules":
        return go_to(visit.link("schedules", done=done, match=form.one("match")))
    return go_to(visit.link("jobs", job.id, done=done))


def _list_actions(visit: Visit, job: Job) -> Iterator[Action]:
    """The actions that apply to the job in its current state, and that the caller may take."""
    if visit.may_operate:
        yield from _list_operations(visit, job)
    if not visit.caller.may(Scope.WRITE):
        return
    if is_dead(job) and visit.may_operate:
        yield Action("Edit and retry…", visit.link("jobs", job.id, "retry"), is_link=True)
    if not job.status.is_terminal:
        yield Action("Edit…", visit.link("jobs", job.id, "edit"), is_link=True)
    yield Action("Duplicate…", visit.link("jobs", job.id, "duplicate"), is_link=True)


def _list_operations(visit: Visit, job: Job) -> Iterator[Action]:
    chosen = ("id", job.id)
    if job.status is JobStatus.READY and job.due_at > visit.now and not job.is_paused:
        yield Action("Run now", visit.link("jobs", job.id, "run-now"))
    if is_dead(job):
        yield Action("Retry…", visit.link("confirm"), (chosen, ("action", "retry")), "main")
        yield Action("Discard…", visit.link("confirm"), (chosen, ("action", "discard")), "severe")
    if not job.status.is_terminal:
        if job.recurrence is not None:
            verb = "resume" if job.is_paused else "pause"
            yield Action(f"{verb.capitalize()} series", visit.link("jobs", job.id, verb))
        yield Action("Cancel…", visit.link("confirm"), (chosen, ("action", "cancel")), "severe")
