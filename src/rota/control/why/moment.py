"""Whether a job, or its series, ran at some instant, or will, and why."""

from datetime import datetime
from typing import NamedTuple

from rota.clock.protocol import Clock
from rota.control.acts import find_acts
from rota.control.series.listing import find_jobs_of
from rota.control.surroundings import ControlStore
from rota.control.why.circumstances import Circumstances, gather, read_climate
from rota.control.why.ending import describe_attempt
from rota.control.why.explaining import explain
from rota.control.why.explanation import Explanation, Finding, Reason
from rota.control.why.future import foresee
from rota.control.why.history import SeriesHistory, look_back
from rota.control.why.series import find_occurrence
from rota.control.why.wording import show, zone_of
from rota.errors import InvalidInputError
from rota.jobs import Job, JobId, JobStatus
from rota.triggers.zone import instants_of, to_utc


class Place(NamedTuple):
    """The instant that is asked about; ``gap`` says so where the clocks skip the time on them."""

    at: datetime
    gap: Reason | None = None


async def explain_job_at(
    store: ControlStore, clock: Clock, tenant: str, job_id: JobId, at: datetime
) -> Explanation:
    """Whether the job, or another one of its series, ran at this instant or will, and why.

    A naive ``at`` is a time on the clock of the series, or of UTC. An occurrence of the same
    minute counts. JobNotFoundError when the tenant has no job of that id. Nothing is written.
    """
    around = await gather(store, clock.now(), tenant, job_id)
    place = _find_place(around.job, at)
    if around.job.recurrence is None:
        found = _judge_job(around, place.at)
    else:
        found = await _judge_series(store, around, place)
    return Explanation(
        job_id=around.job.id,
        status=around.job.status,
        answer=found.answer,
        sentence=found.sentence,
        reasons=tuple(found.reasons),
        next_at=found.next_at,
        at=place.at,
        asked_at=around.now,
    )


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
    return Place(shown[0], Reason(code="clock_change", text=text, at=shown[0]))


async def _judge_series(store: ControlStore, around: Circumstances, place: Place) -> Finding:
    job = around.job
    origin = job.origin or job.id
    jobs = await find_jobs_of(store, job.tenant, origin)
    known = {each.id: each for each in [*jobs, job]}
    began_at = min(each.created_at for each in known.values())
    acts = await find_acts(store, job.tenant, {*known, origin}, began_at)
    history = SeriesHistory(around, tuple(known.values()), acts)
    live = history.live
    occurrence_at = find_occurrence(job, place.at)
    if occurrence_at is None:
        found = _judge_off_schedule(history, place)
    elif occurrence_at <= around.now:
        found = look_back(history, occurrence_at)
    else:
        climate = None if live is None else await read_climate(store, around.now, live)
        found = foresee(history, occurrence_at, climate)
    gap = [] if place.gap is None else [place.gap]
    return found._replace(reasons=[*gap, *found.reasons])


def _judge_off_schedule(history: SeriesHistory, place: Place) -> Finding:
    around, at = history.around, place.at
    is_past = at <= around.now
    will = "did" if is_past else "will"
    told = around.show(at)
    sentence = f"It {will} not run at {told}: that is no occurrence of its rule."
    if place.gap is not None:
        sentence = f"It {will} not run then: the clocks go forward past that time."
    reasons = [*history.describe_rule(at)]
    meanwhile = history.find_at(at) if is_past else None
    if meanwhile is not None:
        reasons.insert(0, history.describe_run(meanwhile))
    return Finding("did not run" if is_past else "will not run", sentence, reasons)


def _judge_job(around: Circumstances, at: datetime) -> Finding:
    """Of a job that does not recur."""
    job = around.job
    attempt = next((it for it in around.attempts if it.started_at <= at <= it.ended_at), None)
    if attempt is not None:
        reason = describe_attempt(around, attempt)
        return Finding("ran", f"It was running at {show(at)}, and did not succeed.", [reason])
    lease = job.lease
    if lease is not None and lease.taken_at <= at <= around.now:
        return Finding("running", f"It was running at {show(at)}, and still is.", [_now(around)])
    if at < job.created_at:
        text = f"It was made later, at {show(job.created_at)}."
        return Finding("did not run", f"It did not run at {show(at)}: {text}", [_now(around)])
    if at <= around.now or job.status.is_terminal:
        return _judge_kept(around, at)
    return _judge_future(around, at)


def _judge_kept(around: Circumstances, at: datetime) -> Finding:
    """Nothing that is recorded of it was going on then."""
    job, now = around.job, around.now
    told = show(at)
    if job.status.is_terminal and at > job.updated_at:
        if at <= now:
            sentence = f"It did not run at {told}: it had ended before."
            return Finding("did not run", sentence, [_now(around)])
        return Finding("will not run", f"It will not run at {told}: it has ended.", [_now(around)])
    if job.status is JobStatus.COMPLETED and job.due_at <= at:
        sentence = f"By {told} it was due, and it was done at {show(job.updated_at)}."
        begun = "When the attempt that succeeded began is not kept."
        return Finding("ran", sentence, [Reason(code="succeeded", text=begun), _now(around)])
    return Finding("did not run", f"It did not run at {told}: it waited.", [_now(around)])


def _judge_future(around: Circumstances, at: datetime) -> Finding:
    job, told = around.job, show(at)
    present = explain(around)
    reason = _now(around)
    if present.next_at is None or job.status is not JobStatus.READY:
        sentence = f"Whether it will run at {told} is not known."
        return Finding("not known", sentence, [reason, *present.reasons])
    if at.replace(second=0, microsecond=0) > present.next_at:
        sentence = f"By {told} it will have begun, unless something holds it back."
        return Finding("will run", sentence, [reason, *present.reasons], present.next_at)
    if at < present.next_at.replace(second=0, microsecond=0):
        sentence = f"It will not run at {told}: it will begin later."
        return Finding("will not run", sentence, [reason, *present.reasons], present.next_at)
    sentence = f"It will run at {show(present.next_at)}."
    return Finding("will run", sentence, list(present.reasons), present.next_at)


def _now(around: Circumstances) -> Reason:
    """How it stands, in the words of the explanation without an instant."""
    return Reason(code="now", text=explain(around).sentence)
