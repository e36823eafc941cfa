"""The store in Redis or Valkey."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.jobs import Change, Job
from rota.stores.kernel.records import check_portion
from rota.stores.protocol import Applied, Inserted, Portion, Reach, Record
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.changing.settling import check_paths
from rota.stores.redis.jobs.records.dumping import dump
from rota.stores.redis.jobs.records.loading import load
from rota.stores.redis.jobs.verbs import JobVerbs
from rota.stores.redis.translation import put_in_doubt
from rota.triggers.zone import to_utc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_INSERTED = 10_000
"""Jobs that one call keeps, all or none, and dependencies that they may name altogether.

While a script runs the server does nothing else, and an insert is one script.
"""

CHANGED_AT_ONCE = 1_000
"""Changes that one script writes."""


class RedisStore(JobVerbs):
    """Remembers documents and jobs on a server, for every process that can reach it.

    A store belongs to the process and the event loop that opened it.
    """

    reach = Reach.NETWORK

    @classmethod
    async def open(cls, settings: RedisSettings) -> Self:
        """The store of that name on a server; an empty one if there was none."""
        return cls(await Database.open(settings))

    async def read_clock(self) -> datetime | None:
        """The server's own time."""
        self._refuse_when_unusable()
        seconds, micros = await self._database.call("TIME")
        return EPOCH + timedelta(0, int(seconds), int(micros))

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is kept; see the protocol."""
        self._refuse_when_unusable()
        return await dump(self._database, cursor, check_portion(limit))

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """Keep records as they are; see the protocol."""
        self._refuse_when_unusable()
        return await load(self._database, records, to_utc(now, "now"))

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Keep all of these jobs or none, up to MOST_INSERTED; see the protocol."""
        _refuse_too_many("jobs", len(jobs))
        _refuse_too_many("dependencies", sum(len(job.dependencies) for job in jobs))
        return await super().insert(jobs, now)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds, part by part; see the protocol."""
        if len(changes) <= CHANGED_AT_ONCE:
            return await super().apply(changes, now)
        check_paths(changes)
        applied: list[Applied] = []
        for at in range(0, len(changes), CHANGED_AT_ONCE):
            try:
                applied += await super().apply(changes[at : at + CHANGED_AT_ONCE], now)
            except StoreUnavailableError as error:
                raise (put_in_doubt(error) if at else error) from error
        return applied


def _refuse_too_many(field: str, count: int) -> None:
    if count > MOST_INSERTED:
        raise InvalidInputError(
            f"Redis keeps up to {MOST_INSERTED:,} {field} in one call of insert, and these are "
            f"{count:,}: insert them in parts",
            {"field": field, "limit": MOST_INSERTED},
        )
