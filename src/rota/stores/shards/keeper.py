"""Lease extension over several shards, for the event loop and for another thread.

A held lease names its job but not its tenant. A process knows the tenants of the jobs that it has
leased itself, and asks their shards. For others every shard is asked.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from rota.errors import StoreError, StoreUnavailableError
from rota.jobs import Job, JobId
from rota.stores.protocol import HeldLease, LeaseKeeper
from rota.stores.shards.placement import Placement
from rota.stores.shards.view import PlacementView

MOST_REMEMBERED = 100_000
"""Jobs whose tenants a process remembers; the oldest are forgotten first."""


class HeldTenants:
    """The tenants of jobs that this process has leased. Several threads may read it."""

    def __init__(self) -> None:
        self._tenants: dict[JobId, str] = {}

    def note(self, jobs: Iterable[Job]) -> None:
        """These jobs were leased."""
        for job in jobs:
            self._tenants[job.id] = job.tenant
        while len(self._tenants) > MOST_REMEMBERED:
            del self._tenants[next(iter(self._tenants))]

    def forget(self, job_ids: Iterable[JobId]) -> None:
        """These jobs were settled."""
        for job_id in job_ids:
            self._tenants.pop(job_id, None)

    def split(
        self, held: Sequence[HeldLease], placement: Placement, names: Collection[str]
    ) -> dict[str, list[HeldLease]]:
        """Which shards to ask about which leases."""
        parts: dict[str, list[HeldLease]] = {}
        for lease in held:
            tenant = self._tenants.get(lease.job_id)
            for name in names if tenant is None else (placement.locate(tenant),):
                parts.setdefault(name, []).append(lease)
        return parts


def merge_extended(
    held: Sequence[HeldLease],
    parts: Mapping[str, Sequence[HeldLease]],
    answers: Mapping[str, Sequence[bool]],
) -> list[bool]:
    """Whether any shard has extended each lease."""
    kept = {
        lease
        for name, part in parts.items()
        for lease, is_held in zip(part, answers[name], strict=True)
        if is_held
    }
    return [lease in kept for lease in held]


class ShardKeeper:
    """See ``LeaseKeeper``."""

    def __init__(
        self,
        keepers: Mapping[str, LeaseKeeper],
        tenants: HeldTenants,
        view: PlacementView,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """``loop`` is the one of the store."""
        self._keepers = keepers
        self._tenants = tenants
        self._view = view
        self._loop = loop
        self._reading: asyncio.Task[None] | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """See ``LeaseKeeper.extend``.

        While the event loop has not read the placement for long, a lease that seems lost may be on
        another shard: then the store counts as unavailable.
        """
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._read_placement)
        placement, is_fresh = self._view.placement, self._view.is_fresh
        parts = self._tenants.split(held, placement, self._keepers)
        answers = {
            name: self._keepers[name].extend(part, until, now) for name, part in parts.items()
        }
        extended = merge_extended(held, parts, answers)
        if not is_fresh and not all(extended):
            raise StoreUnavailableError(
                "The placement of tenants has not been read for long: a lease that seems lost may "
                "be on another shard",
                {"outcome": "unknown"},
            )
        return extended

    def _read_placement(self) -> None:
        """Read it for the next beat: a worker with long jobs makes no other calls."""
        if self._reading is None or self._reading.done():
            self._reading = self._loop.create_task(self._read())

    async def _read(self) -> None:
        with suppress(StoreError):
            await self._view.current()

    def close(self) -> None:
        """See ``LeaseKeeper.close``."""
        for each in self._keepers.values():
            each.close()
