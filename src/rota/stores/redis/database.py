"""The way from a store to its server: calls that finish even if their caller is cancelled."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Self

from rota.clock.loop import in_flight
from rota.jobs import JobId
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.connections import Connections
from rota.stores.redis.keys import Keys, name_keys
from rota.stores.redis.scripts import Script, load_script
from rota.stores.redis.server import examine_server, make_ready

READ = load_script("read")
RANGE = load_script("range")

ID_LENGTH = 36
NO_LIMIT = -1
NO_BYTES_LIMIT = 1 << 40


class Database:
    """The keys of one store, and the scripts that run on them."""

    def __init__(self, connections: Connections, settings: RedisSettings) -> None:
        self.connections = connections
        self.settings = settings
        self.keys: Keys = name_keys(settings.name, connections.number)
        self.calls = connections.calls

    @classmethod
    async def open(cls, settings: RedisSettings) -> Self:
        """Connect, and examine the server, as later each that takes its place."""
        examine = partial(examine_server, settings.label, name_keys(settings.name))
        connections = Connections(settings, examine)
        made = cls(connections, settings)
        try:
            with in_flight():
                await make_ready(connections, made.keys)
        except BaseException:
            await connections.close()
            raise
        return made

    async def run(
        self, script: Script, arguments: Sequence[Any], keys: Sequence[str] | None = None
    ) -> Any:
        """A script's answer; it is given the keys of jobs if it does not need others."""
        keys = self.keys.jobs if keys is None else keys
        with in_flight():
            return await self.connections.run_script(script, (len(keys), *keys, *arguments))

    async def read_jobs(
        self,
        contents: Sequence[str],
        job_ids: Collection[JobId],
        identities: Iterable[str] = (),
    ) -> Any:
        """Ids, and what hashes have of these jobs; see ``read.lua``."""
        keys = [self.keys.job_key(each) for each in ("identities", *contents)]
        return await self.run(READ, (len(job_ids), *job_ids, *identities), keys)

    async def read_ranges(
        self,
        part: str,
        contents: Sequence[str],
        limit: int,
        ranges: Sequence[str],
        *,
        size: int = NO_BYTES_LIMIT,
    ) -> list[list[bytes]]:
        """Members of a sorted set, and what hashes have of their jobs; see ``range.lua``."""
        keys = [self.keys.job_key(each) for each in (part, *contents)]
        arguments = (ID_LENGTH, limit, size, *ranges)
        columns: list[list[bytes]] = await self.run(RANGE, arguments, keys)
        return columns

    async def call(self, *command: Any) -> Any:
        """The server's answer to a command that may be sent twice."""
        with in_flight():
            return await self.connections.call(*command)

    async def close(self) -> None:
        """Complete the calls under way and close the connections."""
        await self.connections.close()
