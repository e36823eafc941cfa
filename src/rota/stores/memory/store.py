"""The store in memory: documents and jobs in one."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Self

from rota.jobs import Job, JobId
from rota.stores.jobs.requests import check_count
from rota.stores.jobs.survey import QueueDepth, survey_jobs
from rota.stores.memory import records as kept
from rota.stores.memory.documents import DocumentVerbs
from rota.stores.memory.jobs import JobVerbs
from rota.stores.memory.shelf import copied
from rota.stores.protocol import Portion, Reach, Record
from rota.stores.sql.portions import check_portion
from rota.triggers.zone import to_utc


class MemoryStore(DocumentVerbs, JobVerbs):
    """Remembers for as long as the process lives. Only waiting for a wake-up suspends a caller."""

    reach = Reach.PROCESS

    def __init__(self) -> None:
        super().__init__()
        self._unreadable: kept.Unreadable = {}

    async def read_clock(self) -> datetime | None:
        """None: what is in memory has the clock of its host."""
        return None

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one."""
        self._refuse_when_closed()
        with self._lock:
            return survey_jobs(self._shelf.jobs.values(), to_utc(now, "now"), tenant)

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs that depend on one of these, by id."""
        self._refuse_when_closed()
        check_count(limit)
        with self._lock:
            named = sorted({each for job_id in job_ids for each in self._shelf.dependents(job_id)})
            found = (self._shelf.find(tenant, each) for each in named)
            return [copied(job) for job in islice((job for job in found if job), limit)]

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is kept; see the protocol."""
        self._refuse_when_closed()
        check_portion(limit)
        with self._lock:
            return await kept.dump(self._collections, self._shelf, self._unreadable, cursor, limit)

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Keep records as they are; see the protocol."""
        self._refuse_when_closed()
        to_utc(now, "now")
        with self._lock:
            return kept.load(self._collections, self._shelf, self._unreadable, records)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
