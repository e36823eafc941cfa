"""An open store: documents, jobs and a clock, for one process, until it is closed."""

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, Self, runtime_checkable

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.jobs import Job, JobId
from rota.stores.protocol import (
    JobStore,
    LeasePreview,
    LeaseRequest,
    PortableStore,
    QueueDepth,
    TransactionalStore,
)


class OpenStore(TransactionalStore, JobStore, PortableStore, Protocol):
    """What ``open_store`` returns; ``async with`` closes it."""

    async def read_clock(self) -> datetime | None:
        """The store's own clock, in UTC; None if it uses the clock of its host."""
        ...

    async def preview_lease(self, request: LeaseRequest, now: datetime) -> LeasePreview:
        """What ``lease`` would look at now, so that several stores can share out one lease."""
        ...

    async def check_insertion(self, jobs: Sequence[Job], now: datetime) -> None:
        """Raise what ``insert`` would raise now. Writes nothing."""
        ...

    async def erase(self, tenant: str, job_ids: Collection[JobId], now: datetime) -> list[JobId]:
        """Remove jobs in any state at once, as ``delete`` does; unknown ones are passed over.

        The answer lists those that stay, because a job depends on them that is not removed.
        """
        ...

    async def __aenter__(self) -> Self:
        """The store itself, already open."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        ...


@runtime_checkable
class BlockingStore(Protocol):
    """A store that can write in the thread of a caller without an event loop."""

    def insert_here(self, job: Job, now: datetime) -> bool:
        """As ``JobStore.insert``, in the caller's own thread, which it blocks; any may call.

        False if nothing was written and ``insert`` has to decide: the job has dependencies or
        exists already, another thread writes, or the store is closed.
        """
        ...


class ShardReport(NamedTuple):
    """One shard of a store: what waits and runs on it; ``depths`` is None if it does not answer.

    ``is_chosen`` if new tenants may come to it, ``exception_count`` how many tenants lie on it
    although hashing says otherwise.
    """

    name: str
    is_home: bool
    is_chosen: bool
    exception_count: int
    depths: Sequence[QueueDepth] | None

    def total(self, count: str) -> int:
        """The sum of a count of ``QueueDepth`` over all queues."""
        return sum(getattr(depth, count) for depth in self.depths or ())


class MoveReport(NamedTuple):
    """A tenant on its way from one shard to another, and since when it is in its phase."""

    tenant: str
    source: str
    target: str
    phase: str
    since: datetime


@runtime_checkable
class Sharded(Protocol):
    """A store of several shards, as far as an operator asks about them."""

    def shard_of(self, tenant: str) -> str:
        """The name of the shard that holds a tenant."""
        ...

    async def describe_shards(self, now: datetime) -> tuple[list[ShardReport], list[MoveReport]]:
        """The shards in order, the home shard first; and the tenants that move."""
        ...


class ClosableStore(ABC):
    """Open in the process that created it, until it is closed for good."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release resources once running calls are done. Closing twice is not an error."""
        if os.getpid() != self._process_id:
            raise _in_forked_child(self._process_id)
        if self._closing is None:
            self._closing = asyncio.create_task(self._release())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    @abstractmethod
    async def _release(self) -> None:
        """Complete running calls, then release resources; called once."""

    def _refuse_when_unusable(self) -> None:
        if os.getpid() != self._process_id:
            raise _in_forked_child(self._process_id)
        if self._closing is not None:
            raise StoreClosedError


def _in_forked_child(opened_by: int) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"This store was opened by process {opened_by} and cannot be used in its "
        f"forked child {os.getpid()}: open the store again there",
        {"opened_by": opened_by},
    )
