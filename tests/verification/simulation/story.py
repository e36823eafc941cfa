"""What happens in a simulated life of a scheduler, as plain values drawn before it is played."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tests.verification.trace.actions import TaskFacts

from rota.testing.faults import Fault

EditionName = Literal["declarative", "polling"]
StoreKind = Literal["memory", "sqlite"]


@dataclass(frozen=True, slots=True)
class CallInitialize:
    """Somebody calls ``initialize``; on a scheduler of its own, unless one is at work."""

    tasks: tuple[TaskFacts, ...]
    on_new_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class CallStop:
    """Somebody calls ``stop``."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The instance dies."""


@dataclass(frozen=True, slots=True)
class CrashAtCall:
    """The instance dies in its n-th call of the store from here, before or after it is served."""

    calls_ahead: int
    is_served: bool


@dataclass(frozen=True, slots=True)
class Jump:
    """The clock shows another time: later when the host slept, earlier when it was set back."""

    by: timedelta


@dataclass(frozen=True, slots=True)
class Release:
    """Every callback that hangs may end now."""


Deed = CallInitialize | CallStop | Crash | CrashAtCall | Jump | Release


@dataclass(frozen=True, slots=True)
class Step:
    """An action after a delay, or at the same instant but some turns of the loop later."""

    after: timedelta
    turns: int
    deed: Deed


@dataclass(frozen=True, slots=True)
class TaskNature:
    """How the runs of a task tend to go."""

    durations: tuple[timedelta, ...]
    failure_share: float = 0.0
    hanging_share: float = 0.0


@dataclass(frozen=True, slots=True)
class StoreNature:
    """How the store behaves: which share of its calls is struck, and how slow it is.

    ``turns`` is how many turns of the event loop a call takes on either side, at most. ``struck``
    names calls, counted from 1, and what befalls them in any case.
    """

    turns: int = 0
    fault_share: float = 0.0
    longest_delay: timedelta = timedelta()
    struck: tuple[tuple[int, Fault], ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """One simulated life, complete: playing it twice gives the same trace."""

    seed: int
    edition: EditionName
    zone: str
    start: datetime
    store: StoreKind
    natures: dict[str, TaskNature]
    store_nature: StoreNature
    steps: tuple[Step, ...] = field(default=())

    def describe(self) -> str:
        """The story in lines, for finding out what went wrong."""
        lines = [
            f"seed {self.seed}: {self.edition} edition, {self.zone}, from {self.start.isoformat()}",
            f"store: {self.store}, {self.store_nature}",
        ]
        lines.extend(f"task {name!r}: {nature}" for name, nature in self.natures.items())
        lines.extend(
            f"after {step.after} and {step.turns} turns: {step.deed}" for step in self.steps
        )
        return "\n".join(lines)
