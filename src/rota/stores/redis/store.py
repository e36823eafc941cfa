"""The store in Redis or Valkey."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from rota.stores.protocol import Portion, Reach, Record
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.records.dumping import dump
from rota.stores.redis.jobs.records.loading import load
from rota.stores.redis.jobs.verbs import JobVerbs
from rota.stores.sql.portions import check_portion
from rota.triggers.zone import to_utc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
