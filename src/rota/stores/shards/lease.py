"""``lease`` over several shards: tenants take turns as if they were on one store.

A round previews the lease on each shard, merges the tenants in the order of their turns, and gives
each an equal part; the shards then lease their parts at the same time. Each shard takes its own
turns in the same order, so the tenants that it serves are those that the round has chosen.

A cap without a tenant limits jobs of all shards. ``Shared`` counts what each shard runs and passes
every shard a cap of its own, so that their sum keeps the limit. While running jobs are counted,
other processes must not lease in the same scopes: ``places.py`` sees to that.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from rota.errors import StoreUnavailableError
from rota.jobs import Job
from rota.stores.kernel.limits import Room, counts_running, scopes_of
from rota.stores.kernel.turns import order_turns
from rota.stores.kernel.unit import Partition
from rota.stores.opened import OpenStore
from rota.stores.protocol import Cap, CapScope, LeasePreview, LeaseRequest
from rota.stores.shards.members import Members


def is_shared(cap: Cap) -> bool:
    """Whether a cap counts running jobs of all tenants, and so of all shards."""
    return cap.tenant is None and cap.running is not None


def without_shared(request: LeaseRequest) -> LeaseRequest:
    """The request with the scopes of its shared caps closed."""
    caps = (replace(cap, running=None, count=0) if is_shared(cap) else cap for cap in request.caps)
    return replace(request, caps=tuple(caps))


def close_tenants(request: LeaseRequest, tenants: Iterable[str]) -> LeaseRequest:
    """The request without jobs of these tenants."""
    closed = tuple(Cap(tenant=tenant, count=0) for tenant in tenants)
    return replace(request, caps=(*request.caps, *closed)) if closed else request


class Turn(NamedTuple):
    """A tenant whose turn it is, and its shard."""

    tenant: str
    shard: str


class Shared:
    """The caps of one lease, as each shard is to keep them."""

    def __init__(self, caps: Sequence[Cap]) -> None:
        self._caps = caps
        self._running: dict[str, Mapping[Partition, int]] = {}
        self._given: Counter[CapScope] = Counter()

    def note_running(self, previews: Mapping[str, LeasePreview]) -> bool:
        """Learn what the shards run; whether that is something new."""
        before = dict(self._running)
        self._running |= {name: preview.running for name, preview in previews.items()}
        return self._running != before

    def note_given(self, jobs: Iterable[Job]) -> None:
        """These jobs were leased in this call."""
        for job in jobs:
            self._given.update(scopes_of(job.tenant, job.queue))

    def caps_of(self, shard: str) -> tuple[Cap, ...]:
        """The caps to pass to a shard: it may use all room that is left on all of them."""
        return tuple(self._narrow(cap, shard) for cap in self._caps)

    def room(self) -> Room:
        """The places left on all shards together."""
        running: Counter[Partition] = Counter()
        for counts in self._running.values():
            running.update(counts)
        return Room([self._without_given(cap) for cap in self._caps], running)

    def most(self, limit: int) -> int:
        """How many jobs the shards may lease at the same time without exceeding a cap."""
        for cap in self._caps:
            left = [each for each in self._left(cap) if each > 0]
            if cap.tenant is None and left:
                limit = min(limit, *left)
        return limit

    def _left(self, cap: Cap) -> list[int]:
        left = [] if cap.running is None else [cap.running - self._count(cap, self._running)]
        return left if cap.count is None else [*left, cap.count - self._given[cap.scope]]

    def _narrow(self, cap: Cap, shard: str) -> Cap:
        narrow = self._without_given(cap)
        if not is_shared(cap) or cap.running is None or not self._running:
            return narrow
        left = max(0, cap.running - self._count(cap, self._running))
        return replace(narrow, running=self._count(cap, [shard]) + left)

    def _without_given(self, cap: Cap) -> Cap:
        if cap.count is None:
            return cap
        return replace(cap, count=max(0, cap.count - self._given[cap.scope]))

    def _count(self, cap: Cap, shards: Iterable[str]) -> int:
        return sum(
            count
            for shard in shards
            for partition, count in self._running.get(shard, {}).items()
            if cap.scope in scopes_of(*partition)
        )


async def lease_in_turns(
    members: Members,
    names: Iterable[str],
    request: LeaseRequest,
    now: datetime,
    closed_on: Callable[[str], Sequence[str]] = lambda _: (),
) -> list[Job]:
    """Lease from the named shards, round by round, until there are enough jobs or no more.

    ``closed_on`` names the tenants of which nothing may be leased on a shard.
    """
    lease = _Lease(members, request, now, closed_on)
    waiting = set(names)
    try:
        while waiting and lease.left:
            turns = await lease.find_turns(waiting)
            if turns is None:
                continue
            if not turns:
                break
            parts = lease.allot(turns)
            given = await lease.take(turns, parts)
            waiting -= {name for name, count in parts.items() if given[name] < count}
    except StoreUnavailableError:
        if not lease.taken:  # jobs that are leased go to the caller: no other would run them
            raise
    return lease.taken


class _Lease:
    """One call of ``lease`` over several shards."""

    def __init__(
        self,
        members: Members,
        request: LeaseRequest,
        now: datetime,
        closed_on: Callable[[str], Sequence[str]],
    ) -> None:
        self._members = members
        self._closed_on = closed_on
        self._request = request
        self._now = now
        self._shared = Shared(request.caps)
        self._counts_running = counts_running(request.caps)
        self._counts_all = any(map(is_shared, request.caps))
        self.taken: list[Job] = []

    @property
    def left(self) -> int:
        """How many jobs are still wanted."""
        return self._request.limit - len(self.taken)

    async def find_turns(self, waiting: Collection[str]) -> list[Turn] | None:
        """The next tenants that have a due job and room for it; None to ask again."""

        async def preview(name: str, shard: OpenStore) -> LeasePreview:
            return await shard.preview_lease(self._narrow(name, self.left), self._now)

        if self._counts_all:  # what a shard runs counts, whether it is asked for jobs or not
            previews = await self._members.ask_all(preview)
        else:
            previews = await self._members.ask_available(waiting, preview)
        is_new = self._counts_running and self._shared.note_running(previews)
        room = self._shared.room()
        shard_of = {
            tenant: name
            for name, each in previews.items()
            for tenant, queue in each.partitions
            if name in waiting and room.has_place(tenant, queue)
        }
        if not shard_of and is_new:
            return None
        turns = order_turns(shard_of, self._request.after_tenant)
        return [Turn(tenant, shard_of[tenant]) for tenant in turns]

    def allot(self, turns: Sequence[Turn]) -> dict[str, int]:
        """How many jobs each shard may lease: an equal part for each tenant, by turns."""
        places = self._shared.most(self.left)
        if self._request.is_selective:
            return _share_out(Counter(turn.shard for turn in turns), places)
        served = turns[:places]
        share, extra = divmod(places, len(served))
        parts: Counter[str] = Counter()
        for index, turn in enumerate(served):
            parts[turn.shard] += share + (index < extra)
        return dict(parts)

    async def take(self, turns: Sequence[Turn], parts: Mapping[str, int]) -> Counter[str]:
        """Lease a part from each shard; how many jobs each has given."""

        async def lease(name: str, shard: OpenStore) -> list[Job]:
            return await shard.lease(self._narrow(name, parts[name]), self._now)

        answers = await self._members.ask_available(parts, lease)
        self._keep(turns, [job for answer in answers.values() for job in answer])
        return Counter({name: len(answer) for name, answer in answers.items()})

    def _keep(self, turns: Sequence[Turn], jobs: Sequence[Job]) -> None:
        """Add the jobs of a round, in the order of the turns of their tenants.

        The caller continues after the tenant of the last job, so what a tenant was given beyond
        its equal part comes last.
        """
        position = {turn.tenant: index for index, turn in enumerate(turns)}
        share = max(1, len(jobs) // max(1, len({job.tenant for job in jobs})))
        seen: Counter[str] = Counter()
        placed: list[tuple[int, int, int, Job]] = []
        for index, job in enumerate(jobs):
            seen[job.tenant] += 1
            later = max(0, seen[job.tenant] - share)
            placed.append((later, position.get(job.tenant, len(turns)), index, job))
        self.taken += [job for *_, job in sorted(placed, key=lambda place: place[:3])]
        self._shared.note_given(jobs)

    def _narrow(self, shard: str, limit: int) -> LeaseRequest:
        narrow = replace(self._request, limit=limit, caps=self._shared.caps_of(shard))
        return close_tenants(narrow, self._closed_on(shard))


def _share_out(tenant_counts: Mapping[str, int], places: int) -> dict[str, int]:
    """Parts in proportion to the tenants, at least one; no more in all than there are places."""
    total = sum(tenant_counts.values())
    parts: dict[str, int] = {}
    left = places
    for name, count in tenant_counts.items():
        part = min(left, max(1, places * count // total))
        if part:
            parts[name] = part
        left -= part
    if left:
        parts[next(iter(parts))] += left
    return parts
