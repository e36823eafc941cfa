"""Explains a job from the store and the deciding functions. Searches no logs."""

from collections.abc import Callable

from rota.clock.protocol import Clock
from rota.jobs import JobId, JobStatus
from rota.ops.explain.ended import explain_blocked, explain_completed, explain_failed
from rota.ops.explain.explanation import Explanation, Finding, Reason
from rota.ops.explain.facts import JobFacts, read_facts
from rota.ops.explain.waiting import explain_pending, explain_ready, explain_running
from rota.rail.jobs import RailStore

_BY_STATUS: dict[JobStatus, Callable[[JobFacts], Finding]] = {
    JobStatus.PENDING: explain_pending,
    JobStatus.READY: explain_ready,
    JobStatus.RUNNING: explain_running,
    JobStatus.COMPLETED: explain_completed,
    JobStatus.FAILED: explain_failed,
    JobStatus.BLOCKED: explain_blocked,
}


async def explain_job(store: RailStore, clock: Clock, tenant: str, job_id: JobId) -> Explanation:
    """Explain why the job ran, did not run, waits or will run.

    Raises JobNotFoundError when the tenant has no job with that id. Writes nothing.
    """
    return explain(await read_facts(store, clock.now(), tenant, job_id))


def explain(facts: JobFacts) -> Explanation:
    """Explain a job from facts already read."""
    job = facts.job
    found = _BY_STATUS[job.status](facts)
    return Explanation(
        job_id=job.id,
        status=job.status,
        answer=found.answer,
        sentence=found.sentence,
        reasons=(*found.reasons, *_origin(facts)),
        next_at=found.next_at,
        asked_at=facts.now,
    )


def _origin(facts: JobFacts) -> list[Reason]:
    """The job it replaces."""
    replaced = facts.job.replaces
    if replaced is None:
        return []
    text = f"It replaces job {replaced}, which failed."
    return [Reason(code="replaces", text=text, at=facts.job.created_at, job_id=replaced)]
