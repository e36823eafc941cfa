"""An open store: documents, jobs and a clock, for one process, until it is closed."""

import asyncio
import os
from abc import ABC, abstractmethod
from datetime import datetime
from typing import Protocol, Self

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.stores.protocol import JobStore, PortableStore, TransactionalStore


class OpenStore(TransactionalStore, JobStore, PortableStore, Protocol):
    """What ``open_store`` returns; ``async with`` closes it."""

    async def read_clock(self) -> datetime | None:
        """The store's own clock, in UTC; None if it uses the clock of its host."""
        ...

    async def __aenter__(self) -> Self:
        """The store itself, already open."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
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
        self._refuse_in_forked_child()
        if self._closing is None:
            self._closing = asyncio.create_task(self._release())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    @abstractmethod
    async def _release(self) -> None:
        """Complete running calls, then release resources; called once."""

    def _refuse_when_unusable(self) -> None:
        self._refuse_in_forked_child()
        if self._closing is not None:
            raise StoreClosedError

    def _refuse_in_forked_child(self) -> None:
        if os.getpid() != self._process_id:
            raise StoreUnavailableError(
                f"This store was opened by process {self._process_id} and cannot be used in its "
                f"forked child {os.getpid()}: open the store again there",
                {"opened_by": self._process_id},
            )
