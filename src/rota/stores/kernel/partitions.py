"""Which partitions have due jobs, and when the next job is due: for stores that look step by step.

SQLite and MySQL mark READY jobs as due and index them by tenant and queue. From one partition a
store steps to the next with one look into the index, however many jobs each has. Instants
are microseconds since 1970.
"""

from collections.abc import Collection
from typing import NamedTuple

from rota.stores.kernel.limits import scopes_of
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import Partition, Reading
from rota.stores.protocol import CapScope, LeaseRequest


class DuePartition(NamedTuple):
    """A queue of a tenant with jobs marked as due, and when the first of them is due."""

    tenant: str
    queue: str
    due_at: int


class NextPartition(NamedTuple):
    """The first partition from a tenant and queue on. Answer: ``DuePartition | None``.

    Without a queue: after all queues of the tenant.
    """

    tenant: str
    queue: str | None


class FirstMarked(NamedTuple):
    """When the jobs marked as due in a partition are due. Answer: ``int | None``.

    The instant of any that is due now; if none is, the first one. It is asked only where the first
    job in order is not due: a clock was set back, or that of another process is ahead.
    """

    tenant: str
    queue: str
    now: int


class FirstLater(NamedTuple):
    """When the first job that is not marked is due; None for any queue or tenant.

    Answer: ``int | None``.
    """

    queue: str | None
    tenants: Collection[str] | None


class Steps:
    """The chosen partitions by tenant and queue, starting after a tenant."""

    def __init__(
        self,
        queues: Collection[str] | None,
        tenants: Collection[str] | None,
        after: str = "",
    ) -> None:
        self._queues = None if queues is None else sorted(set(queues))
        self._ranges: list[tuple[NextPartition, str | None]]
        """Where each begins, and the last tenant in it."""
        if tenants is not None:
            turns = order_turns(set(tenants), after)
            self._ranges = [(NextPartition(tenant, ""), tenant) for tenant in turns]
        elif after:
            rest = (NextPartition("", ""), after)
            self._ranges = [(NextPartition(after, None), None), rest]
        else:
            self._ranges = [(NextPartition("", ""), None)]

    def next(self) -> Reading[DuePartition | None]:
        """The next one; None after the last."""
        while self._ranges:
            place, last = self._ranges[0]
            found: DuePartition | None = yield place
            if found is None or (last is not None and found.tenant > last):
                del self._ranges[0]
                continue
            queues = self._queues
            if queues is None or found.queue in queues:
                self._ranges[0] = NextPartition(found.tenant, f"{found.queue}\0"), last
                return found
            following = next((queue for queue in queues if queue > found.queue), None)
            self._ranges[0] = NextPartition(found.tenant, following), last
        return None


def find_partitions(
    request: LeaseRequest, limit: int, full: Collection[CapScope], now: int
) -> Reading[list[Partition]]:
    """See ``FindPartitions``."""
    steps = Steps(request.queues, request.tenants, request.after_tenant)
    found: list[Partition] = []
    tenants: set[str] = set()
    while (each := (yield from steps.next())) is not None:
        if each.tenant not in tenants and len(tenants) == limit:
            break
        has_room = not full or set(full).isdisjoint(scopes_of(each.tenant, each.queue))
        if has_room and (yield from _first_due(each, now)) <= now:
            found.append((each.tenant, each.queue))
            tenants.add(each.tenant)
    return found


def _first_due(partition: DuePartition, now: int) -> Reading[int]:
    """As ``FirstMarked``."""
    if partition.due_at <= now:
        return partition.due_at
    first: int | None = yield FirstMarked(partition.tenant, partition.queue, now)
    return partition.due_at if first is None else first  # others took the jobs meanwhile


def find_next_due(
    queues: Collection[str] | None, tenants: Collection[str] | None, now: int
) -> Reading[int | None]:
    """See ``JobStore.next_due_at``."""
    steps = Steps(queues, tenants)
    firsts: list[int] = []
    while (each := (yield from steps.next())) is not None:
        firsts.append((yield from _first_due(each, now)))
        if firsts[-1] <= now:
            return now
    for queue in (None,) if queues is None else set(queues):
        later: int | None = yield FirstLater(queue, tenants)
        firsts += [] if later is None else [later]
    return max(now, min(firsts)) if firsts else None
