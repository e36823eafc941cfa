"""Whose turn it is: the tenants that have due jobs, and the first jobs of each."""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from rota.jobs import JobId
from rota.stores.kernel.turns import order_turns, take_turns
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.protocol import LeaseRequest


class Line:
    """The first jobs of some tenants, of whom more are read when they are asked for."""

    def __init__(self) -> None:
        self._first: dict[str, list[JobId]] = {}
        self._is_all: set[str] = set()
        self._given: dict[str, int] = {}
        self.wanted: dict[str, int] = {}

    @property
    def tenants(self) -> Sequence[str]:
        """In the order in which they were put here."""
        return list(self._first)

    def start_over(self) -> None:
        self._given = {}
        self.wanted = {}

    def put(self, tenant: str, ids: list[JobId], *, is_all: bool) -> None:
        self._first[tenant] = ids
        if is_all:
            self._is_all.add(tenant)

    def take(self, tenant: str, count: int) -> Sequence[JobId]:
        """The next of the tenant's; when not enough are known, what is needed is noted."""
        start = self._given.get(tenant, 0)
        end = start + count
        known = self._first.get(tenant, [])
        if end > len(known) and tenant not in self._is_all:
            self.wanted[tenant] = end
        self._given[tenant] = end
        return known[start:end]


async def choose_in_turn(
    gateway: Gateway, request: LeaseRequest, limit: int, now: datetime
) -> list[JobId]:
    """The jobs whose turn it is, as ``take_turns`` has it."""
    if request.tenants is None and _are_in_order(request.queues):
        line = await _read_line(gateway, request, limit, now)
    else:
        line = await _find_tenants(gateway, request, limit, now)
    chosen = take_turns(line.tenants, limit, line.take)
    while line.wanted:
        for tenant, count in line.wanted.items():
            asked = queries.first_due(now, tenant, count, request.queues)._replace(fields=["_id"])
            ids = [raw["_id"] for raw in await gateway.find(asked)]
            line.put(tenant, ids, is_all=len(ids) < count)
        line.start_over()
        chosen = take_turns(line.tenants, limit, line.take)
    return chosen


async def tenants_in_turn(
    gateway: Gateway, request: LeaseRequest, now: datetime
) -> AsyncIterator[str]:
    """The tenants that have a due job, in their turns."""
    if request.tenants is not None:
        for tenant in order_turns(set(request.tenants), request.after_tenant):
            if await gateway.find(queries.has_due(now, tenant, request.queues)):
                yield tenant
        return
    after, until = request.after_tenant, None
    while True:  # from one tenant to the next, without looking at the jobs in between
        found = await gateway.find(queries.next_tenant(now, after, until, request.queues))
        if found:
            after = found[0]["tenant"]
            yield after
        if found and after != until:
            continue
        if until is not None or not request.after_tenant:
            return
        after, until = "", request.after_tenant


def _are_in_order(queues: Collection[str] | None) -> bool:
    """Whether an index has the jobs of these queues in the order in which they are handed out."""
    return queues is None or len(queues) == 1


async def _find_tenants(gateway: Gateway, request: LeaseRequest, limit: int, now: datetime) -> Line:
    """Up to so many tenants, of whose jobs none is known yet."""
    line = Line()
    async for tenant in tenants_in_turn(gateway, request, now):
        line.put(tenant, [], is_all=False)
        if len(line.tenants) == limit:
            break
    return line


async def _read_line(gateway: Gateway, request: LeaseRequest, limit: int, now: datetime) -> Line:
    """Up to so many tenants with the first jobs of each.

    One query shows all that is due where that is little; it goes on after a tenant that has more.
    """
    line = Line()
    after, until = request.after_tenant, None
    cut_off_count = 0
    while len(line.tenants) < limit:
        length = max(1, limit // (cut_off_count + 1))  # the part of one more that has plenty
        asked = queries.first_in_turn(now, after, until, length, request.queues)
        found = await gateway.find(asked)
        is_cut_off = len(found) == length
        _put_all(line, found, limit, is_cut_off=is_cut_off)
        if is_cut_off:
            after, cut_off_count = found[-1]["tenant"], cut_off_count + 1
        if is_cut_off and after != until:
            continue
        if until is not None or not request.after_tenant:
            break
        after, until = "", request.after_tenant
    return line


def _put_all(line: Line, found: Sequence[Raw], limit: int, *, is_cut_off: bool) -> None:
    """Of whom the last one is, more may be there when there was no room for all."""
    for tenant, raws in groupby(found, key=itemgetter("tenant")):
        if len(line.tenants) == limit:
            return
        is_last = tenant == found[-1]["tenant"]
        line.put(tenant, [raw["_id"] for raw in raws], is_all=not (is_last and is_cut_off))
