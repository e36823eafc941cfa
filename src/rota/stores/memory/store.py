"""The store in memory: documents and jobs in one."""

from datetime import datetime
from typing import Self

from rota.stores.jobs.survey import QueueDepth, survey_jobs
from rota.stores.memory.documents import DocumentVerbs
from rota.stores.memory.jobs import JobVerbs
from rota.stores.protocol import Reach
from rota.triggers.zone import to_utc


class MemoryStore(DocumentVerbs, JobVerbs):
    """Remembers for as long as the process lives. Only waiting for a wake-up suspends a caller."""

    reach = Reach.PROCESS

    async def read_clock(self) -> datetime | None:
        """None: what is in memory has the clock of its host."""
        return None

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one."""
        self._refuse_when_closed()
        with self._lock:
            return survey_jobs(self._shelf.jobs.values(), to_utc(now, "now"), tenant)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
