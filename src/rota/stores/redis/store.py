"""The store in Redis or Valkey."""

from datetime import UTC, datetime, timedelta
from typing import Self

from rota.stores.protocol import Reach
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.verbs import JobVerbs

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
