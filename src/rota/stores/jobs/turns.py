"""Tenants take turns: how many jobs of whom make up one lease.

Each tenant with a due job gets an equal part, but at least one; what some leave over goes to those
with more, in further rounds. A lease never needs to look at more tenants than it asks for jobs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def order_turns(tenants: Iterable[str], after_tenant: str) -> list[str]:
    """The tenants by code point, beginning with the one after ``after_tenant``."""
    return sorted(tenants, key=lambda tenant: (tenant <= after_tenant, tenant))


def take_turns(
    tenants: Iterable[str], limit: int, take: Callable[[str, int], Sequence[Item]]
) -> list[Item]:
    """Up to ``limit`` items of these tenants, in the order of their turns.

    ``take`` gives up to so many items of a tenant, fewer only when it has no more. The tenant of
    the last item is the one to go on after: over several calls all get the same.
    """
    taken: list[Item] = []
    waiting = list(tenants)
    while waiting:
        share = max(1, (limit - len(taken)) // len(waiting))
        unsated: list[str] = []
        for tenant in waiting:
            found = take(tenant, min(share, limit - len(taken)))
            taken.extend(found)
            if len(taken) == limit:
                return taken
            if len(found) == share:
                unsated.append(tenant)
        waiting = unsated
    return taken
