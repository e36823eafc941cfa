"""What can go wrong with made-up time."""

from collections.abc import Sequence
from datetime import datetime

from rota.errors.groups import InvalidInputError, RotaError


class ClockUseError(InvalidInputError):
    """A clock was used in a way that has no meaning, such as a virtual one by two drivers."""


class DeadlockError(RotaError):
    """Every task waits, and nothing is left that could wake one: no timer, no work in flight.

    ``tasks`` says for each which line it waits at.
    """

    def __init__(self, now: datetime, tasks: Sequence[str]) -> None:
        super().__init__(
            f"Deadlock at {now.isoformat()}: every task waits, no timer is set and nothing is in "
            "flight. (A wait for a thread or a socket must be inside `with in_flight():`, and a "
            f"wait for time must go through the clock.){_listed(tasks)}",
            {"now": now.isoformat(), "tasks": list(tasks)},
        )
        self.now = now
        self.tasks = tuple(tasks)


class BusyLoopError(RotaError):
    """The event loop never came to rest, so virtual time could not move.

    Some task yields again and again instead of waiting; ``tasks`` says where each stands.
    """

    def __init__(self, now: datetime, turn_count: int, tasks: Sequence[str]) -> None:
        super().__init__(
            f"The event loop did not come to rest at {now.isoformat()} within {turn_count} turns: "
            f"a task yields in a loop instead of waiting.{_listed(tasks)}",
            {"now": now.isoformat(), "turnCount": turn_count, "tasks": list(tasks)},
        )
        self.now = now
        self.turn_count = turn_count
        self.tasks = tuple(tasks)


def _listed(tasks: Sequence[str]) -> str:
    return "".join(f"\n  {task}" for task in tasks)
