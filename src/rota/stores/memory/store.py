"""The store in memory: documents and jobs in one."""

from datetime import datetime
from typing import Self

from rota.stores.memory.documents import DocumentVerbs
from rota.stores.memory.jobs import JobVerbs
from rota.stores.protocol import Reach


class MemoryStore(DocumentVerbs, JobVerbs):
    """Remembers for as long as the process lives. Only waiting for a wake-up suspends a caller."""

    reach = Reach.PROCESS

    async def read_clock(self) -> datetime | None:
        """None: what is in memory has the clock of its host."""
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
