"""Explains whether a job, or another job of its series, ran or will run at an instant."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from rota.clock.protocol import Clock, to_utc
from rota.errors import InvalidInputError
from rota.jobs import Ending, Job, JobId, JobStatus, Recurrence
from rota.jobs.recurrence import count_missed, is_skipped, occurrence_of, planned_start, series_of
from rota.ops.audit import find_audit_entries
from rota.ops.explain import describe_attempt, describe_success, explain
from rota.ops.explanation import (
    Answer,
    Explanation,
    Finding,
    JobFacts,
    Reason,
    Snapshot,
    format_error,
    read_facts,
    read_snapshot,
    show,
    zone_of,
)
from rota.ops.reasons import (
    describe_next,
    describe_overlap,
    describe_rule,
    describe_start,
    find_occurrence,
    list_lasting_holds,
    why_it_ends,
)
from rota.ops.series import find_jobs_of
from rota.policy.audit import AuditEntry
from rota.rail.jobs import RailStore
from rota.triggers.zone import instants_of

_KEPT = "Runs that old are not kept, or were never recorded."


class SeriesHistory(NamedTuple):
    """A job, the known jobs of its series, and the audit entries about them."""

    facts: JobFacts
    jobs: tuple[Job, ...]
    audit: tuple[AuditEntry, ...] = ()

    @property
    def live(self) -> Job | None:
        """The job of the next occurrence."""
        left = [job for job in self.jobs if not job.status.is_terminal]
        return max(left, key=occurrence_of) if left else None

    def find_for(self, occurrence_at: datetime) -> Job | None:
        return next((job for job in self.jobs if occurrence_of(job) == occurrence_at), None)

    def find_before(self, instant: datetime) -> Job | None:
        """The last job whose occurrence lies before the instant."""
        return max(
            (job for job in self.jobs if occurrence_of(job) < instant),
            key=occurrence_of,
            default=None,
        )

    def find_at(self, instant: datetime) -> Job | None:
        """The last job that was due and had not ended at the instant."""
        job = self.find_before(instant)
        if job is None or (job.status.is_terminal and job.updated_at < instant):
            return None
        return job

    def find_pause(self, instant: datetime) -> AuditEntry | None:
        """The pause that covers the instant, if any."""
        for entry in self.audit:  # newest first
            if entry.at <= instant and entry.action in ("pause", "resume"):
                return entry if entry.action == "pause" else None
        return None

    def describe_rule(self, at: datetime) -> Iterator[Reason]:
        """The rule, and its next occurrence after an instant."""
        yield from describe_rule(self.facts.job, at)
        yield from describe_next(self.facts.job, at)

    def describe_run(self, job: Job) -> Reason:
        """The job of an occurrence, and how it ended."""
        show, at = self.facts.show, occurrence_of(job)
        ends = {
            JobStatus.COMPLETED: f"was done at {show(job.updated_at)}",
            JobStatus.FAILED: f"failed at {show(job.updated_at)}: {format_error(job.last_error)}",
            JobStatus.BLOCKED: f"was blocked at {show(job.updated_at)}",
            JobStatus.RUNNING: "is running",
        }
        ended = ends.get(job.status, f"is {job.status.lower()}")
        if job.ending is Ending.CANCELLED:
            ended = f"was cancelled at {show(job.updated_at)}"
        text = f"Job {job.id}, for {show(at)}, {ended}"
        text = text if text.endswith(".") else f"{text}."
        return Reason("occurrence", text, at=at, job_id=job.id)


def explain_past(history: SeriesHistory, occurrence_at: datetime) -> Finding:
    """Explain a past occurrence."""
    run = history.find_for(occurrence_at)
    when = history.facts.show(occurrence_at)
    if run is not None and not _was_paused_away(history, run):
        answer, sentence = _describe_outcome(run, when)
        reasons = [history.describe_run(run), *describe_rule(run, occurrence_at)]
        return Finding(answer, sentence, reasons)
    answer, reason = _find_cause(history, occurrence_at)
    sentence = f"It did not run at {when}, though its rule says so."
    if answer == "not known":
        sentence = f"It was to run at {when}; whether it did is not known."
    return Finding(answer, sentence, [reason, *history.describe_rule(occurrence_at)])


def _was_paused_away(history: SeriesHistory, run: Job) -> bool:
    """Resuming a series cancels the occurrences that passed during the pause."""
    is_cancelled = run.ending is Ending.CANCELLED
    return is_cancelled and history.find_pause(occurrence_of(run)) is not None


def _describe_outcome(run: Job, when: str) -> tuple[Answer, str]:
    if is_skipped(run):
        return "did not run", f"It was to run at {when}, and was skipped: no worker could run it."
    if run.ending is Ending.CANCELLED:
        return "cancelled", f"It was to run at {when}, and was cancelled."
    answers: dict[JobStatus, tuple[Answer, str]] = {
        JobStatus.COMPLETED: ("ran", f"It ran for {when}."),
        JobStatus.FAILED: ("failed", f"It ran for {when}, and failed for good."),
        JobStatus.BLOCKED: ("did not run", f"It did not run for {when}: it was blocked."),
        JobStatus.RUNNING: ("running", f"It is running now, for {when}."),
        JobStatus.READY: ("due", f"It has yet to run for {when}."),
        JobStatus.PENDING: ("waits", f"It waits for other jobs before it runs for {when}."),
    }
    return answers[run.status]


def _find_cause(history: SeriesHistory, occurrence_at: datetime) -> tuple[Answer, Reason]:
    """Why a past occurrence has no job."""
    job, show = history.facts.job, history.facts.show
    before, pause = history.find_before(occurrence_at), history.find_pause(occurrence_at)
    if job.recurrence is not None and occurrence_at < job.recurrence.start:
        text = f"The series began later, at {show(job.recurrence.start)}."
        return "did not run", Reason("later", text, at=job.recurrence.start)
    if pause is not None:
        text = f"{pause.who} had paused the series at {show(pause.at)}."
        return "did not run", Reason("paused", text, at=pause.at, who=pause.who)
    if before is None:
        return "not known", Reason("occurrence", _KEPT)
    if not before.status.is_terminal or before.updated_at >= occurrence_at:
        return "did not run", _describe_overlap(history, before)
    if history.live is None:
        text = f"The series had ended: {why_it_ends(history.facts._replace(job=before))}."
        return "did not run", Reason("series_end", text, job_id=before.id)
    return "not known", Reason("occurrence", _KEPT)


def _describe_overlap(history: SeriesHistory, before: Job) -> Reason:
    """The previous job was still waiting or running."""
    show = history.facts.show
    if is_skipped(before):
        text = "No worker could run it in time, and the series skips missed occurrences."
        return Reason("missed", text, at=occurrence_of(before), job_id=before.id)
    until = f"until {show(before.updated_at)}" if before.status.is_terminal else "and still does"
    verb = "ran or waited" if before.status.is_terminal else "runs or waits"
    text = (
        f"It was skipped because the job for {show(occurrence_of(before))} {verb} {until}. "
        "That job covers it too; its handler gets the number of skipped occurrences."
    )
    return Reason("overlap", text, at=occurrence_of(before), job_id=before.id)


def explain_future(
    history: SeriesHistory, occurrence_at: datetime, snapshot: Snapshot | None
) -> Finding:
    """Explain a future occurrence, as far as it can be known now."""
    when = history.facts.show(occurrence_at)
    cause = _find_hindrance(history, occurrence_at)
    rule = [*describe_rule(history.facts.job, occurrence_at)]
    if cause is not None:
        sentence = f"It will not run at {when}, though its rule says so."
        return Finding("will not run", sentence, [cause, *rule])
    live = history.live
    holds = [] if live is None else list_lasting_holds(live, snapshot, occurrence_at)
    sentence, held_until = describe_start(when, holds, history.facts)
    reasons = [
        *rule,
        *holds,
        *([] if live is None else _describe_way(history, live, occurrence_at)),
    ]
    return Finding("will run", sentence, reasons, held_until or occurrence_at)


def _find_hindrance(history: SeriesHistory, occurrence_at: datetime) -> Reason | None:
    """What stops the series before it reaches the occurrence."""
    live, show = history.live, history.facts.show
    if live is None or live.recurrence is None:
        last = max(history.jobs, key=occurrence_of)
        text = f"The series has ended: {why_it_ends(history.facts._replace(job=last))}."
        return Reason("series_end", text, job_id=last.id)
    if live.is_paused:
        pause = next((entry for entry in history.audit if entry.action == "pause"), None)
        by = "" if pause is None else f" by {pause.who} at {show(pause.at)}"
        text = f"The series is paused{by}; it will run if the series is resumed before."
        return Reason("paused", text, who=None if pause is None else pause.who)
    if live.ending is not Ending.CANCELLED and occurrence_at < occurrence_of(live):
        text = f"The series is already at {show(occurrence_of(live))}, with job {live.id}."
        return Reason("next_occurrence", text, at=occurrence_of(live), job_id=live.id)
    return _find_end(history, live, live.recurrence, occurrence_at)


def _find_end(
    history: SeriesHistory, live: Job, recurrence: Recurrence, occurrence_at: datetime
) -> Reason | None:
    until = recurrence.until
    if until is not None and occurrence_at > until:
        text = f"The series ends at {history.facts.show(until)}."
        return Reason("series_end", text, at=until)
    if recurrence.count is None:
        return None
    if count_missed(recurrence, occurrence_of(live), occurrence_at) < recurrence.count:
        return None
    left = "one occurrence" if recurrence.count == 1 else f"{recurrence.count} occurrences"
    return Reason("series_end", f"The series ends before: it has {left} left.")


def _describe_way(history: SeriesHistory, live: Job, occurrence_at: datetime) -> Iterator[Reason]:
    """The job of the occurrence, or the jobs that come before it."""
    if occurrence_of(live) == occurrence_at:
        yield history.describe_run(live)
        if live.due_at != planned_start(live):
            text = f"Its job was moved to {history.facts.show(live.due_at)}."
            yield Reason("moved", text, at=live.due_at, job_id=live.id)
        return
    yield history.describe_run(live)
    yield from describe_overlap(live)


class Place(NamedTuple):
    """The instant in question. ``gap`` is true when DST skips the wall time."""

    at: datetime
    gap: Reason | None = None


async def explain_job_at(
    store: RailStore, clock: Clock, tenant: str, job_id: JobId, at: datetime
) -> Explanation:
    """Explain whether the job, or another job of its series, ran or will run at this instant.

    A naive ``at`` is a wall time in the zone of the series, or in UTC. An occurrence in the same
    minute counts. Raises JobNotFoundError when the tenant has no job with that id. Writes nothing.
    """
    facts = await read_facts(store, clock.now(), tenant, job_id)
    place = _find_place(facts.job, at)
    if facts.job.recurrence is None:
        found = _judge_job(facts, place.at)
    else:
        found = await _judge_series(store, facts, place)
    return found.conclude(facts.job.id, facts.job.status, facts.now, place.at)


def _find_place(job: Job, at: datetime) -> Place:
    if at.tzinfo is not None:
        return Place(to_utc(at, "at"))
    zone = zone_of(job)
    shown = instants_of(at, zone, gap="shift", fold="first")
    if not shown:
        raise InvalidInputError("at is beyond the calendar", {"field": "at"})
    if instants_of(at, zone, gap="skip", fold="first"):
        return Place(shown[0])
    text = f"{at:%Y-%m-%d %H:%M} does not exist in {zone}: the clocks go forward past it."
    return Place(shown[0], Reason("clock_change", text, at=shown[0]))


async def _judge_series(store: RailStore, facts: JobFacts, place: Place) -> Finding:
    job = facts.job
    origin = series_of(job)
    jobs = await find_jobs_of(store, job.tenant, origin)
    known = {each.id: each for each in [*jobs, job]}
    began_at = min(each.created_at for each in known.values())
    audit = await find_audit_entries(store, job.tenant, {*known, origin}, began_at)
    history = SeriesHistory(facts, tuple(known.values()), audit)
    live = history.live
    occurrence_at = find_occurrence(job, place.at)
    if occurrence_at is None:
        found = _judge_off_schedule(history, place)
    elif occurrence_at <= facts.now:
        found = explain_past(history, occurrence_at)
    else:
        snapshot = None if live is None else await read_snapshot(store, facts.now, live)
        found = explain_future(history, occurrence_at, snapshot)
    gap = [] if place.gap is None else [place.gap]
    return found._replace(reasons=[*gap, *found.reasons])


def _judge_off_schedule(history: SeriesHistory, place: Place) -> Finding:
    facts, at = history.facts, place.at
    is_past = at <= facts.now
    will = "did" if is_past else "will"
    when = facts.show(at)
    sentence = f"It {will} not run at {when}: its rule has no occurrence then."
    if place.gap is not None:
        sentence = f"It {will} not run then: the clocks go forward past that time."
    reasons = [*history.describe_rule(at)]
    meanwhile = history.find_at(at) if is_past else None
    if meanwhile is not None:
        reasons.insert(0, history.describe_run(meanwhile))
    return Finding("did not run" if is_past else "will not run", sentence, reasons)


def _judge_job(facts: JobFacts, at: datetime) -> Finding:
    """Explain a job without a series."""
    job = facts.job
    attempt = next((it for it in facts.attempts if it.started_at <= at <= it.ended_at), None)
    if attempt is not None:
        reason = describe_attempt(facts, attempt)
        return Finding("ran", f"It was running at {show(at)}, and did not succeed.", [reason])
    lease = job.lease
    if lease is not None and lease.taken_at <= at <= facts.now:
        return Finding("running", f"It was running at {show(at)}, and still is.", [_now(facts)])
    if at < job.created_at:
        text = f"It did not run at {show(at)}: it was created later, at {show(job.created_at)}."
        return Finding("did not run", text, [_now(facts)])
    if at <= facts.now or job.status.is_terminal:
        return _judge_kept(facts, at)
    return _judge_future(facts, at)


def _judge_kept(facts: JobFacts, at: datetime) -> Finding:
    """No record shows activity at that instant."""
    job, now = facts.job, facts.now
    when = show(at)
    if job.status.is_terminal and at > job.updated_at:
        if at <= now:
            sentence = f"It did not run at {when}: it had ended before."
            return Finding("did not run", sentence, [_now(facts)])
        return Finding("will not run", f"It will not run at {when}: it has ended.", [_now(facts)])
    if job.status is JobStatus.COMPLETED and job.due_at <= at:
        sentence = f"By {when} it was due, and it was done at {show(job.updated_at)}."
        return Finding("ran", sentence, [*describe_success(facts), _now(facts)])
    return Finding("did not run", f"It did not run at {when}: it waited.", [_now(facts)])


def _judge_future(facts: JobFacts, at: datetime) -> Finding:
    job, when = facts.job, show(at)
    present = explain(facts)
    reason = _now(facts)
    if present.next_at is None or job.status is not JobStatus.READY:
        sentence = f"Whether it will run at {when} is not known."
        return Finding("not known", sentence, [reason, *present.reasons])
    if at.replace(second=0, microsecond=0) > present.next_at:
        sentence = f"By {when} it will have begun, unless something holds it back."
        return Finding("will run", sentence, [reason, *present.reasons], present.next_at)
    if at < present.next_at.replace(second=0, microsecond=0):
        sentence = f"It will not run at {when}: it will begin later."
        return Finding("will not run", sentence, [reason, *present.reasons], present.next_at)
    sentence = f"It will run at {show(present.next_at)}."
    return Finding("will run", sentence, list(present.reasons), present.next_at)


def _now(facts: JobFacts) -> Reason:
    """The current state, as the explanation without an instant words it."""
    return Reason("now", explain(facts).sentence)
