"""Why a job that has ended ended as it did."""

from collections.abc import Iterator

from rota.control.why.circumstances import Circumstances
from rota.control.why.explanation import Reason, ReasonCode, named, show
from rota.control.why.finding import Finding
from rota.control.why.series import describe_future, describe_occurrence
from rota.jobs import Attempt, Ending
from rota.rail.audit import AuditEntry

_CODES: dict[Ending | None, ReasonCode] = {
    Ending.EXHAUSTED: "exhausted",
    Ending.DISCARDED: "discarded",
    Ending.LOST: "lost",
    Ending.CANCELLED: "cancelled",
    None: "exhausted",
}


def explain_completed(around: Circumstances) -> Finding:
    """It ran."""
    job = around.job
    done = Reason(
        code="succeeded", text=f"Its handler returned by {show(job.updated_at)}.", at=job.updated_at
    )
    tries = f", after {_attempts(job.attempt_count)}" if job.attempt_count else ""
    sentence = f"It ran, and was done at {show(job.updated_at)}{tries}."
    return Finding("ran", sentence, [done, *_history(around), *_links(around)])


def explain_failed(around: Circumstances) -> Finding:
    """It ran as often as it may, was given up, or was called off."""
    job = around.job
    if job.ending is Ending.CANCELLED:
        return _explain_cancelled(around)
    at, policy = job.updated_at, job.retry_policy
    words = {
        Ending.DISCARDED: "its handler said that no attempt would ever succeed",
        Ending.LOST: f"{job.loss_count} workers in a row were lost while they ran it",
    }
    cause = words.get(
        job.ending or Ending.EXHAUSTED, f"all {policy.max_attempts} attempts have failed"
    )
    error = (job.last_error or "no error was told").strip().splitlines()[0][:200]
    given_up = Reason(code=_CODES[job.ending], text=f"It ended: {cause}. {error}", at=at)
    sentence = f"It failed for good at {show(at)}: {cause}."
    return Finding("failed", sentence, [given_up, *_history(around), *_links(around)])


def explain_blocked(around: Circumstances) -> Finding:
    """Something that it waited for failed, or somebody called it off while it waited."""
    job = around.job
    if job.ending is Ending.CANCELLED:
        return _explain_cancelled(around)
    reasons = [
        Reason(
            code="blocked",
            text=f"{named(each).capitalize()} "
            + ("was called off" if each.ending is Ending.CANCELLED else "failed")
            + f" at {show(each.updated_at)}: {_short(each.last_error)}",
            at=each.updated_at,
            job_id=each.id,
        )
        for each in around.culprits
    ]
    if not reasons:
        text = "A job that it depended on failed, and is not kept any more."
        reasons = [Reason(code="blocked", text=text, at=job.updated_at)]
    sentence = "It will never run: a job that it depends on, directly or through others, failed."
    return Finding("will not run", sentence, [*reasons, *_links(around)])


def _explain_cancelled(around: Circumstances) -> Finding:
    job = around.job
    act = next((it for it in around.acts if it.action in ("cancel", "bulk_cancel")), None)
    called_off = Reason(
        code="cancelled",
        text=_tell_cancel(act, job.last_error),
        at=job.updated_at,
        who=None if act is None else act.who,
    )
    by = "" if act is None else f" by {act.who}"
    sentence = f"It was called off at {show(job.updated_at)}{by}."
    return Finding("called off", sentence, [called_off, *_history(around), *_links(around)])


def _tell_cancel(act: AuditEntry | None, last_error: str | None) -> str:
    if act is None:
        return f"It was called off: {_short(last_error)}"
    why = f", because: {act.why}" if act.why else ""
    return f"{act.who} called it off at {show(act.at)}{why}."


def _history(around: Circumstances) -> Iterator[Reason]:
    """The attempts that did not succeed, the last one first."""
    of = around.job.retry_policy.max_attempts
    for attempt in reversed(around.attempts):
        yield _describe_attempt(attempt, of)


def _describe_attempt(attempt: Attempt, of: int) -> Reason:
    return Reason(
        code="attempt",
        text=f"Attempt {attempt.number} of {of}, by {attempt.worker}, {attempt.outcome} at "
        f"{show(attempt.ended_at)}: {_short(attempt.error)}",
        at=attempt.started_at,
        until=attempt.ended_at,
        who=attempt.worker,
    )


def _links(around: Circumstances) -> Iterator[Reason]:
    """What came before and after it."""
    job, stand_in = around.job, around.replacement
    if stand_in is not None:
        yield Reason(
            code="replaced_by",
            text=f"It was tried again as job {stand_in.id}, which is {stand_in.status}.",
            at=stand_in.created_at,
            job_id=stand_in.id,
        )
    yield from describe_occurrence(job)
    yield from describe_future(around)


def _attempts(count: int) -> str:
    return "one failed attempt" if count == 1 else f"{count} failed attempts"


def _short(error: str | None) -> str:
    lines = (error or "").strip().splitlines() or ["no error was told"]
    return lines[0][:200] + "."
