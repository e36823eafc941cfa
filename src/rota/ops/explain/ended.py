"""Explains how a job ended."""

from collections.abc import Iterator

from rota.jobs import Attempt, Ending, Job
from rota.ops.explain.explanation import (
    Finding,
    Reason,
    ReasonCode,
    end_sentence,
    format_duration,
    format_error,
    format_job,
)
from rota.ops.explain.facts import JobFacts
from rota.ops.explain.series import describe_future, describe_occurrence

_CODES: dict[Ending | None, ReasonCode] = {
    Ending.EXHAUSTED: "exhausted",
    Ending.DISCARDED: "discarded",
    Ending.LOST: "lost",
    Ending.CANCELLED: "cancelled",
    None: "exhausted",
}
_OUTCOMES = {"lost": "was lost", "discarded": "gave up", "cancelled": "was cancelled"}


def explain_completed(facts: JobFacts) -> Finding:
    """The job ran."""
    job = facts.job
    meant_for, done_at = job.occurrence_at or job.due_at, job.updated_at
    text = f"It was due at {facts.show(meant_for)}"
    text += (
        "" if done_at < meant_for else f", and done {format_duration(done_at - meant_for)} later"
    )
    done = Reason(code="succeeded", text=f"{text}.", at=done_at)
    tries = f", after {_attempts(job.attempt_count)}" if job.attempt_count else ""
    sentence = f"It ran, and was done at {facts.show(done_at)}{tries}."
    return Finding("ran", sentence, [done, *_history(facts), *_links(facts)])


def explain_failed(facts: JobFacts) -> Finding:
    """The job used up its attempts, was discarded, or was cancelled."""
    job, at = facts.job, facts.job.updated_at
    if job.ending is Ending.CANCELLED:
        return _explain_cancelled(facts)
    told = "Its handler said" if job.ending is Ending.DISCARDED else "The last error was"
    text = f"{told}: {format_error(job.last_error)}"
    given_up = Reason(code=_CODES[job.ending], text=text, at=at)
    sentence = f"It failed for good at {facts.show(at)}: {_tell_end(job)}."
    return Finding("failed", sentence, [given_up, *_history(facts), *_links(facts)])


def _tell_end(job: Job) -> str:
    if job.ending is Ending.DISCARDED:
        return "its handler discarded it"
    if job.ending is Ending.LOST:
        return f"{job.loss_count} workers in a row were lost while they ran it"
    count = job.retry_policy.max_attempts
    if count == 1:
        return "its only attempt has failed"
    return f"{'both' if count == 2 else f'all {count}'} attempts have failed"


def explain_blocked(facts: JobFacts) -> Finding:
    """A dependency failed, or an operator cancelled the job while it waited."""
    job = facts.job
    if job.ending is Ending.CANCELLED:
        return _explain_cancelled(facts)
    reasons = [
        Reason(
            code="blocked",
            text=f"J{format_job(each)[1:]} "
            + ("was cancelled" if each.ending is Ending.CANCELLED else "failed")
            + f" at {facts.show(each.updated_at)}: {format_error(each.last_error)}",
            at=each.updated_at,
            job_id=each.id,
        )
        for each in facts.culprits
    ]
    if not reasons:
        text = "A job it depended on failed and no longer exists."
        reasons = [Reason(code="blocked", text=text, at=job.updated_at)]
    sentence = "It will never run: a job it depends on failed, directly or through others."
    return Finding("will not run", sentence, [*reasons, *_links(facts)])


def _explain_cancelled(facts: JobFacts) -> Finding:
    job = facts.job
    act = next((it for it in facts.acts if it.action in ("cancel", "bulk_cancel")), None)
    given = act.why if act is not None else job.last_error
    called_off = Reason(
        code="cancelled",
        text=f"The reason given was: {end_sentence(given)}" if given else "No reason was given.",
        at=job.updated_at,
        who=None if act is None else act.who,
    )
    by = "" if act is None else f" by {act.who}"
    sentence = f"It was cancelled{by} at {facts.show(job.updated_at)}."
    return Finding("cancelled", sentence, [called_off, *_history(facts), *_links(facts)])


def _history(facts: JobFacts) -> Iterator[Reason]:
    """The failed attempts, last one first."""
    for attempt in reversed(facts.attempts):
        yield describe_attempt(facts, attempt)


def describe_attempt(facts: JobFacts, attempt: Attempt) -> Reason:
    """The attempt's number, its worker, and how it ended."""
    return Reason(
        code="attempt",
        text=f"Attempt {attempt.number} of {facts.job.retry_policy.max_attempts}, on "
        f"{attempt.worker}, {_outcome(attempt)} at {facts.show(attempt.ended_at)}: "
        f"{format_error(attempt.error)}",
        at=attempt.started_at,
        until=attempt.ended_at,
        who=attempt.worker,
    )


def _links(facts: JobFacts) -> Iterator[Reason]:
    """The jobs it replaced and the job that replaced it."""
    job, stand_in = facts.job, facts.replacement
    if stand_in is not None:
        yield Reason(
            code="replaced_by",
            text=f"It was tried again as job {stand_in.id}, now {stand_in.status.lower()}.",
            at=stand_in.created_at,
            job_id=stand_in.id,
        )
    yield from describe_occurrence(job)
    yield from describe_future(facts)


def _outcome(attempt: Attempt) -> str:
    return _OUTCOMES.get(attempt.outcome, attempt.outcome)


def _attempts(count: int) -> str:
    return "one failed attempt" if count == 1 else f"{count} failed attempts"
