"""The store on a SQLite file: documents and jobs in one."""

from collections.abc import Sequence
from datetime import datetime

from rota.jobs import Job, JobId
from rota.stores.kernel.records import check_portion
from rota.stores.protocol import Portion, QueueDepth, Reach, Record, check_count
from rota.stores.sqlite.documents import DocumentVerbs
from rota.stores.sqlite.inspection.survey import survey_file
from rota.stores.sqlite.jobs.reading import find_dependents
from rota.stores.sqlite.jobs.records.dumping import dump
from rota.stores.sqlite.jobs.records.loading import Loaded, load
from rota.stores.sqlite.jobs.verbs import JobVerbs
from rota.triggers.zone import to_utc


class SqliteStore(DocumentVerbs, JobVerbs):
    """Remembers in one file, for every process on this host that opens it.

    A store belongs to the process that opened it: a forked child is refused and opens its own.
    """

    reach = Reach.HOST

    async def read_clock(self) -> datetime | None:
        """None: the file has no clock but that of the host."""
        return None

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """The tenant's jobs that depend on one of these, by id."""
        check_count(limit)
        named = tuple(job_ids)
        return await self._open_reader().run(
            lambda connection: find_dependents(connection, tenant, named, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """How full each queue is, over all tenants or for one."""
        reader = self._open_reader()
        now = to_utc(now, "now")
        return await reader.run(lambda connection: survey_file(connection, now, tenant))

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is kept; see the protocol."""
        return await dump(self._open_reader(), cursor, check_portion(limit))

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Keep records as they are, all of them in one step; see the protocol."""
        writer = self._open_writer()
        loaded = Loaded.of(records, to_utc(now, "now"))
        return await writer.run(lambda connection: load(connection, loaded), len(records))
