"""Which jobs may be what kills their workers."""

from enum import IntEnum

from rota.jobs.record import Job
from rota.jobs.settling.transitions import LOSS_LIMIT


class Suspicion(IntEnum):
    """How likely it is that a job takes down whatever runs beside it."""

    NONE = 0
    SLIGHT = 1
    """Its last worker was lost. That may have been for any reason."""
    GRAVE = 2
    """And one more loss would be its end: whether it deserves that must be certain."""


def judge_suspicion(job: Job) -> Suspicion:
    """What the job's losses say. One that was not lost the last time is under no suspicion."""
    if not job.loss_count:
        return Suspicion.NONE
    is_set_aside_next = job.loss_count + 1 >= LOSS_LIMIT
    is_last_attempt = job.attempt_count + 1 >= job.retry_policy.max_attempts
    return Suspicion.GRAVE if is_set_aside_next or is_last_attempt else Suspicion.SLIGHT
