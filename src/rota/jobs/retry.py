"""Whether and when a job is retried. Randomness is passed in, never drawn here."""

from datetime import timedelta

from rota.errors import InvalidInputError
from rota.jobs.record import BackoffStrategy, Job, RetryPolicy

JITTER_SHARE = 0.1
LONGEST_JITTER_SECONDS = 30


def retry_delay(policy: RetryPolicy, attempt_number: int) -> int:
    """The delay in whole seconds after the failed attempt with this number, counted from 1."""
    if attempt_number < 1:
        raise InvalidInputError(
            f"attempt_number must be at least 1, got {attempt_number}",
            {"field": "attempt_number", "value": attempt_number},
        )
    base, longest = policy.base_delay_seconds, policy.max_delay_seconds
    if policy.backoff_strategy is BackoffStrategy.FIXED:
        return base
    if policy.backoff_strategy is BackoffStrategy.LINEAR:
        return min(base * attempt_number, longest)
    if policy.backoff_strategy is BackoffStrategy.EXPONENTIAL:
        # This many doublings exceed any cap; more would only make a needlessly large number.
        doublings = min(attempt_number - 1, longest.bit_length())
        return min(base << doublings, longest)
    rungs = policy.ladder_seconds
    return rungs[min(attempt_number, len(rungs)) - 1]


def retry_after(policy: RetryPolicy, attempt_number: int, chance: float = 0.0) -> timedelta:
    """The delay with jitter, if the strategy has any: never earlier, at most a tenth later.

    ``chance`` is in [0, 1). Jitter never adds more than 30 seconds.
    """
    if not 0 <= chance < 1:
        raise InvalidInputError(
            f"chance must be in [0, 1), got {chance}", {"field": "chance", "value": chance}
        )
    seconds = retry_delay(policy, attempt_number)
    if policy.backoff_strategy is not BackoffStrategy.LADDER:
        return timedelta(seconds=seconds)
    jitter = chance * min(seconds * JITTER_SHARE, LONGEST_JITTER_SECONDS)
    return timedelta(seconds=seconds + jitter)


def should_retry(job: Job) -> bool:
    """Whether a job with ``attempt_count`` failed attempts may be attempted again."""
    return job.attempt_count < job.retry_policy.max_attempts
