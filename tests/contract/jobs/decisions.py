"""What may become of a job, by name."""

from collections.abc import Callable
from datetime import datetime, timedelta

from rota.errors import IllegalMoveError
from rota.jobs import (
    Change,
    Failed,
    Job,
    Succeeded,
    decide_cancel,
    decide_complete,
    decide_defer,
    decide_discard,
    decide_fail,
    decide_hand_back,
    decide_lost,
    decide_outcome,
    decide_snooze,
)

_DECISIONS: dict[str, Callable[[Job, datetime], Change]] = {
    "complete": decide_complete,
    "return": lambda job, now: decide_outcome(job, Succeeded(b'{"of":"' + job.id.encode()), now),
    "return and log": lambda job, now: decide_outcome(
        job, Succeeded(b"7", log="ä done"), now, started_at=now - timedelta(seconds=1)
    ),
    "raise": lambda job, now: decide_outcome(
        job, Failed("ValueError", traceback="Traceback\nä", log="ä tried"), now, 0.25
    ),
    "fail": lambda job, now: decide_fail(job, f"ValueError: ä {job.attempt_count}", now, 0.25),
    "snooze": lambda job, now: decide_snooze(job, timedelta(seconds=20), now),
    "defer": lambda job, now: decide_defer(job, now + timedelta(minutes=2), "quiet hours", now),
    "discard": lambda job, now: decide_discard(job, "no hope", now),
    "hand back": decide_hand_back,
    "lost": lambda job, now: decide_lost(job, now, 0.5),
    "cancel": lambda job, now: decide_cancel(job, "cancelled", now),
    "skip": lambda job, now: decide_cancel(job, "skipped", now, ends_series=False),
}

VERDICTS = ("complete", "complete", "complete", "return", "fail", *_DECISIONS)


def decide(job: Job, verdict: str, now: datetime) -> Change | None:
    """The change, if the job's status allows of it."""
    try:
        return _DECISIONS[verdict](job, now)
    except IllegalMoveError:
        return None
