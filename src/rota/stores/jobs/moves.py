"""Whether a change still holds, and what of it is written."""

from datetime import datetime
from itertools import pairwise

from msgspec.structs import replace

from rota.errors import IllegalMoveError
from rota.jobs import PAUSED_UNTIL, Change, Job, can_transition, is_stalled

MOVE_FIELDS = (
    "status",
    "due_at",
    "attempt_count",
    "loss_count",
    "last_error",
    "ending",
    "lease",
    "last_token",
    "deferral",
    "updated_at",
)
"""What a change writes of its job. The rest may have been amended since the change was decided."""

SERIES_FIELDS = (
    *("queue", "name", "kind", "payload", "priority", "retry_policy", "auto_remove"),
    "is_paused",
)
"""What a successor takes from its parent as it is kept, for the same reason."""


def check_path(change: Change) -> None:
    """Refuse a change that goes a way which is not in the table of moves."""
    for current, target in pairwise(change.path):
        if not can_transition(current, target):
            raise IllegalMoveError(current, target)


def is_current(change: Change, kept: Job | None, now: datetime) -> bool:
    """Whether the job is still as it was when the change was decided.

    A loss holds only while the lease is run out: its holder may have been late, and extended it.
    """
    if kept is None or kept.tenant != change.job.tenant:
        return False
    if (kept.status, kept.last_token) != (change.expected_status, change.expected_token):
        return False
    is_loss = change.attempt is not None and change.attempt.outcome == "lost"
    return is_stalled(kept, now) if is_loss else True


def write_move(change: Change, kept: Job) -> Job:
    """The job as it is kept, moved as decided."""
    return replace(kept, **{name: getattr(change.job, name) for name in MOVE_FIELDS})


def make_successor(change: Change, kept: Job) -> Job | None:
    """The next job of the series, as the present one has been amended."""
    if change.successor is None:
        return None
    successor = replace(change.successor, **{name: getattr(kept, name) for name in SERIES_FIELDS})
    if successor.is_paused:
        return replace(successor, due_at=PAUSED_UNTIL)
    return replace(successor, due_at=successor.occurrence_at or successor.due_at)
