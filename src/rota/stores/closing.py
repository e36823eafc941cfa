"""Until when, and in which process, a store that holds files or connections may be used."""

import asyncio
import os
from abc import ABC, abstractmethod

from rota.errors import StoreClosedError, StoreUnavailableError


class ClosableStore(ABC):
    """Open from the beginning, in the process that opened it; once closed, closed for good."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._closing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Let go of what is held once the calls under way are done; closing twice is no error."""
        self._refuse_in_forked_child()
        if self._closing is None:
            self._closing = asyncio.create_task(self._release())
        if not self._closing.done():
            await asyncio.shield(self._closing)

    @abstractmethod
    async def _release(self) -> None:
        """Complete what is under way, then let go; called once."""

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
