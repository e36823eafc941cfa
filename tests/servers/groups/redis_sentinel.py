"""A Redis server with replicas and three Sentinels, who name another when it is gone."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import redis
from tests.servers.postgres import wait_for_server
from tests.servers.process import ServerProcess
from tests.servers.redis import RedisServer, find_redis
from tests.servers.shared import new_redis_server, run_folder

SERVICE = "work"
PASSWORD = "watch-w0rd"  # noqa: S105 - it opens nothing but Sentinels of a test
DOWN_AFTER = (500, 700, 900)
QUORUM = (2, 3, 3)
"""Milliseconds after which each takes a server for down, and how many must before it acts.

So the first acts before the others do. When all act at once each is elected by itself, and they
try again after a while, which is right and takes long.
"""

_QUICKLY = ("publish-period", "50", "info-period", "200")
_AS_USUAL = ("publish-period", "2000", "info-period", "1000", "ask-period", "100")
"""Milliseconds between what Sentinels tell and ask, until they know each other and then.

Four times the first is how long they let a former primary, who is back, take itself for one.
"""


class Sentinel(ServerProcess):
    """One of those who watch; it has a password, and remembers what it knows in its folder."""

    def __init__(self, program: Path, folder: Path, number: int, watched_port: int) -> None:
        super().__init__(f"{program.name} --sentinel", folder)
        self._program = program
        self._number = number
        self._watched_port = watched_port

    @property
    def url(self) -> str:
        """Where it listens itself."""
        return f"redis://127.0.0.1:{self.port}/0"

    def create(self) -> None:
        super().create()
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._watched_port} {QUORUM[self._number]}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER[self._number]}",
            f"sentinel failover-timeout {SERVICE} 2000",
            f"requirepass {PASSWORD}",
            f"sentinel sentinel-pass {PASSWORD}",
        ]
        (self.folder / "settings").write_text("\n".join([*lines, ""]))

    def _command(self) -> list[str]:
        return [str(self._program), f"{self.folder}/settings", "--sentinel"]

    def _answers(self) -> bool:
        try:
            self.ask("MASTERS")
        except redis.RedisError:
            return False
        return True

    def ask(self, *command: str) -> object:
        with redis.Redis(
            port=self.port, password=PASSWORD, decode_responses=True, socket_timeout=1
        ) as client:
            return client.execute_command("SENTINEL", *command)


class WatchedServers:
    """A primary, its replicas, and those who watch over them."""

    def __init__(self, servers: list[RedisServer], sentinels: list[Sentinel]) -> None:
        self.servers = servers
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        """Where a store can be opened, whichever server is the primary."""
        places = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://{places}/{SERVICE}?sentinel_password={PASSWORD}"

    def remove(self) -> None:
        """Stop all of them and leave nothing on the disk."""
        for sentinel in self.sentinels:
            sentinel.remove()
        for server in self.servers:
            server.remove()

    def find_primary(self) -> RedisServer:
        """The server that all who watch and are there name."""
        named = {
            int(each.ask("GET-MASTER-ADDR-BY-NAME", SERVICE)[1])  # type: ignore[index] # a pair
            for each in self.sentinels
            if each.process_id is not None
        }
        (port,) = named
        return next(each for each in self.servers if each.port == port)

    def wait_for_another(self, primary: RedisServer) -> RedisServer:
        """The primary that has taken the place of this one, as soon as all name it."""
        wait_for_server(
            lambda: self._names_only_others(primary),
            lambda: f"no server took over:\n{self.sentinels[0].log}",
        )
        return self.find_primary()

    def _names_only_others(self, primary: RedisServer) -> bool:
        try:
            return self.find_primary() is not primary
        except ValueError:  # they do not agree yet
            return False


@contextmanager
def new_watched_servers(
    replica_count: int = 1, options: Sequence[str] = ()
) -> Iterator[WatchedServers]:
    """A primary, its replicas and three Sentinels, which are stopped in the end."""
    quick = ("--repl-diskless-sync-delay", "0", *options)
    servers = [new_redis_server("watched", quick)]
    follows = ("--replicaof", f"127.0.0.1 {servers[0].port}")
    servers += [new_redis_server("watched", [*quick, *follows]) for _ in range(replica_count)]
    sentinels = [_new_sentinel(number, servers[0].port) for number in range(3)]
    group = WatchedServers(servers, sentinels)
    try:
        wait_for_server(
            lambda: all(_knows_all(each, replica_count) for each in sentinels),
            lambda: f"the Sentinels have not found all:\n{sentinels[0].log}",
        )
        for each in sentinels:
            each.ask("DEBUG", *_AS_USUAL)
        yield group
    finally:
        group.remove()


def _new_sentinel(number: int, watched_port: int) -> Sentinel:
    program = find_redis()
    assert program is not None, "it has just been used"
    folder = run_folder() / f"redis-sentinel-{watched_port}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    sentinel = Sentinel(program, folder, number, watched_port)
    sentinel.create()
    sentinel.start()
    sentinel.ask("DEBUG", *_QUICKLY)
    return sentinel


def _knows_all(sentinel: Sentinel, replica_count: int) -> bool:
    """Whether it knows two other Sentinels, and replicas that have all that the primary has."""
    state = sentinel.ask("MASTER", SERVICE)
    replicas = sentinel.ask("REPLICAS", SERVICE)
    assert isinstance(state, dict)
    assert isinstance(replicas, list)
    linked = [each for each in replicas if each["master-link-status"] == "ok"]
    return int(state["num-other-sentinels"]) == 2 and len(linked) == replica_count
