"""A PgBouncer of one's own in transaction mode, before any server of PostgreSQL.

``ROTA_TEST_PGBOUNCER`` names its program; else it is on the path or where Debian has it. It takes
the next server connection for each transaction, so that no two in a row share a session.
"""

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import psycopg.conninfo
from tests.servers.binaries import server_user
from tests.servers.process import ServerProcess

NAMED_PROGRAM = "ROTA_TEST_PGBOUNCER"
_FOLDERS = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
_SETTINGS = """
[databases]
* = {target}
[pgbouncer]
pool_mode = transaction
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
default_pool_size = 4
max_client_conn = 400
server_round_robin = 1
{options}
"""


def find_pgbouncer() -> Path | None:
    """The program; None when this machine has none."""
    named = os.environ.get(NAMED_PROGRAM)
    found = shutil.which(named or "pgbouncer", path=_FOLDERS)
    assert found or not named, f"{NAMED_PROGRAM} names no program: {named}"
    return Path(found) if found else None


class PgBouncer(ServerProcess):
    """``options`` are lines of its configuration that override those above."""

    def __init__(
        self, program: Path, folder: Path, server_url: str, options: Sequence[str] = ()
    ) -> None:
        super().__init__("PgBouncer", folder)
        self._program = program
        self._target = psycopg.conninfo.conninfo_to_dict(server_url)
        self._options = options

    @property
    def url(self) -> str:
        """Of the same database; the name of the user does not matter."""
        database = self._target["dbname"]
        return f"postgresql://rota@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def create(self) -> None:
        super().create()
        names = ("host", "port", "user", "password")
        target = " ".join(f"{name}={self._target[name]}" for name in names if name in self._target)
        settings = _SETTINGS.format(target=target, port=self.port, options="\n".join(self._options))
        (self.folder / "pgbouncer.ini").write_text(settings)
        user = server_user()
        if user is not None:
            for path in (self.folder, self.folder / "pgbouncer.ini"):
                os.chown(path, user.pw_uid, user.pw_gid)

    def _command(self) -> Sequence[str]:
        """It refuses to run as root."""
        user = server_user()
        changed = [] if user is None else ["-u", user.pw_name]
        return [str(self._program), *changed, str(self.folder / "pgbouncer.ini")]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True
