"""Lanes: the queues of tenants in which somebody stands in line."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import apsw

from rota.stores.kernel.turns import order_turns
from rota.stores.sqlite.jobs.queries import QUERIES

_BEHIND_ALL = b""


class Lane(NamedTuple):
    """A queue of a tenant in which somebody stands, and when the first in it is due."""

    tenant: str
    queue: str
    due_at: int


def walk_lanes(
    connection: apsw.Connection,
    queues: Collection[str] | None,
    tenants: Collection[str] | None,
    after: str = "",
) -> Iterator[Lane]:
    """The lanes that were chosen, by tenant and queue, beginning with the tenant after that one.

    It steps from lane to lane: how many stand in each does not matter.
    """
    chosen = None if queues is None else sorted(set(queues))
    if tenants is not None:
        for tenant in order_turns(set(tenants), after):
            yield from _walk(connection, (tenant, ""), chosen, tenant)
        return
    if after:
        yield from _walk(connection, (after, _BEHIND_ALL), chosen, None)
    yield from _walk(connection, ("", ""), chosen, after or None)


def is_lane_due(connection: apsw.Connection, lane: Lane, now: int) -> bool:
    """Whether somebody in the lane is due; it is the first, unless the clock was set back."""
    if lane.due_at <= now:
        return True
    place = (lane.tenant, lane.queue, now)
    return connection.execute(QUERIES.is_lane_due, place).fetchone() is not None


def _walk(
    connection: apsw.Connection,
    place: tuple[str, str | bytes],
    chosen: Sequence[str] | None,
    last_tenant: str | None,
) -> Iterator[Lane]:
    while (found := connection.execute(QUERIES.next_lane, place).fetchone()) is not None:
        lane = Lane._make(found)
        if last_tenant is not None and lane.tenant > last_tenant:
            return
        place = lane.tenant, f"{lane.queue}\0"  # the text that follows directly
        if chosen is not None:
            index = bisect_left(chosen, lane.queue)
            if index == len(chosen) or chosen[index] != lane.queue:
                place = lane.tenant, chosen[index] if index < len(chosen) else _BEHIND_ALL
                continue
        yield lane
