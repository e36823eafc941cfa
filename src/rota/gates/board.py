"""All the windows that are kept, as one gate."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from rota.gates.chain import first_open
from rota.gates.maintenance import Maintenance
from rota.gates.quiet_hours import QuietHours
from rota.gates.verdict import OPEN, Gate, Verdict
from rota.gates.window import refuse, require
from rota.jobs.record import Job
from rota.jobs.validation.fields import read_queue, read_word


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose jobs a maintenance concerns: a tenant's, a queue's or, with neither, all."""

    tenant: str | None = None
    queue: str | None = None

    def __post_init__(self) -> None:
        if self.tenant is not None and self.queue is not None:
            raise refuse("queue", "cannot be given beside a tenant: name one of them")
        if self.tenant is not None:
            read_word(self.tenant, "tenant")
        if self.queue is not None:
            read_queue(self.queue)

    def __str__(self) -> str:
        if self.tenant is not None:
            return f"tenant {self.tenant}"
        return "everything" if self.queue is None else f"queue {self.queue}"


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class TenantQuietHours:
    """When a tenant's people are not to be told anything."""

    tenant: str
    hours: QuietHours

    def __post_init__(self) -> None:
        read_word(self.tenant, "tenant")
        require(QuietHours, self.hours, "hours", "QuietHours")


@dataclass(frozen=True, slots=True)
class ScopedMaintenance:
    """When nothing in a scope is to run; there may be several windows, planned ahead."""

    scope: Scope
    windows: tuple[Maintenance, ...]


Entry: TypeAlias = TenantQuietHours | ScopedMaintenance


@dataclass(frozen=True, slots=True)
class Board:
    """A gate made of entries: a job is judged by those that concern it, and by all of them."""

    quiet_hours: Mapping[str, QuietHours]
    everywhere: tuple[Maintenance, ...]
    by_tenant: Mapping[str, tuple[Maintenance, ...]]
    by_queue: Mapping[str, tuple[Maintenance, ...]]

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """Open unless a window that concerns the job says otherwise."""
        if not (self.everywhere or self.by_tenant or self.by_queue or self.quiet_hours):
            return OPEN  # as it is most of the time, and every job is judged
        gates = self.gates_for(job, notifies=notifies)
        return first_open(gates, job, now, notifies=notifies) if gates else OPEN

    def gates_for(self, job: Job, *, notifies: bool) -> list[Gate]:
        """The windows that concern the job, whether or not they are closed."""
        gates: list[Gate] = [*self.everywhere]
        gates += self.by_tenant.get(job.tenant, ())
        gates += self.by_queue.get(job.queue, ())
        hours = self.quiet_hours.get(job.tenant) if notifies else None
        return gates if hours is None else [*gates, hours]


def make_board(entries: Iterable[Entry]) -> Board:
    """The gate that these entries make; of two for the same tenant or scope the last one holds."""
    hours = dict[str, QuietHours]()
    closures = dict[Scope, tuple[Maintenance, ...]]()
    for entry in entries:
        if isinstance(entry, TenantQuietHours):
            hours[entry.tenant] = entry.hours
        else:
            closures[entry.scope] = entry.windows
    return Board(
        quiet_hours=hours,
        everywhere=closures.get(EVERYTHING, ()),
        by_tenant={scope.tenant: each for scope, each in closures.items() if scope.tenant},
        by_queue={scope.queue: each for scope, each in closures.items() if scope.queue},
    )
