"""By which rules a trace is judged: the edition of the scheduler, and what is still on time."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rota.triggers.zone import Fold

Dialect = Literal["posix", "posix-multiline"]


@dataclass(frozen=True, slots=True)
class Edition:
    """Where the two specifications of the scheduler differ, as far as a trace can show it."""

    fold: Fold
    """Whether a minute shown twice is due both times, or the first time only."""
    reinitializes: bool
    """Whether ``initialize`` may succeed while the scheduler is active."""
    resets_changed_tasks: bool
    """Whether a task whose expression or delay changed forgets its history, as if it were new."""
    dialect: Dialect
    """What counts as blank space in an expression."""


DECLARATIVE_EDITION = Edition(
    fold="both", reinitializes=False, resets_changed_tasks=False, dialect="posix"
)
POLLING_EDITION = Edition(
    fold="first", reinitializes=True, resets_changed_tasks=True, dialect="posix-multiline"
)

Allowance = Callable[[int], timedelta]
"""How late a start, a return or the end of a stop may be, given the number of tasks."""


def linear_allowance(task_count: int) -> timedelta:
    """What specification 1 asks for: about a minute, growing with the number of tasks."""
    return timedelta(seconds=60, milliseconds=6 * task_count)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is forgiven besides the allowance. All of it is time that flowed."""

    after_jump: timedelta = timedelta(seconds=10)
    """How long a jump of the clock may go unnoticed."""
    after_fault: timedelta = timedelta(minutes=1)
    """How long a scheduler may take to go on after its store failed."""
    after_crash: timedelta = timedelta()
    """How long the other instances may take to find out that one is dead."""
    after_failure: timedelta = timedelta(seconds=1)
    """How long a retry without any delay may be held back, lest a failing task spin."""
    settle_lag: timedelta = timedelta()
    """A run that ended this shortly before a crash may not have been recorded, and run again."""
    claim_lag: timedelta = timedelta()
    """An occurrence may have been claimed this long before its callback was invoked."""
