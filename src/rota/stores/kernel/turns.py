"""Tenants take turns: how many jobs of each tenant make up one lease.

Each tenant with a due job gets an equal share, at least one job. Further rounds give what is left
to tenants with more. A lease never looks at more tenants than the number of jobs it asks for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def order_turns(tenants: Iterable[str], after_tenant: str) -> list[str]:
    """The tenants by code point, starting after ``after_tenant``."""
    return sorted(tenants, key=lambda tenant: (tenant <= after_tenant, tenant))


def take_turns(
    tenants: Iterable[str], limit: int, take: Callable[[str, int], Sequence[Item]]
) -> list[Item]:
    """Up to ``limit`` items of these tenants, in the order of their turns.

    ``take`` returns up to a number of items of a tenant, fewer only if it has no more. A caller
    continues after the tenant of the last item: over several calls all tenants get the same.
    """
    taken: list[Item] = []
    waiting = list(tenants)
    while waiting:
        share = max(1, (limit - len(taken)) // len(waiting))
        with_more: list[str] = []
        for tenant in waiting:
            found = take(tenant, min(share, limit - len(taken)))
            taken.extend(found)
            if len(taken) == limit:
                return taken
            if len(found) == share:
                with_more.append(tenant)
        waiting = with_more
    return taken


def share_out(offered: Mapping[str, Sequence[Item]], limit: int) -> tuple[list[Item], Counter[str]]:
    """Up to ``limit`` of what tenants offer, as they take turns; and how many each was asked for.

    A tenant that was asked for more than it offers may have more.
    """
    asked: Counter[str] = Counter()

    def take(tenant: str, count: int) -> Sequence[Item]:
        asked[tenant] += count
        return offered[tenant][asked[tenant] - count : asked[tenant]]

    return take_turns(offered, limit, take), asked
