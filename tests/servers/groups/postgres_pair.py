"""A PostgreSQL primary and a synchronous standby, which takes its place when it is killed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import psycopg
from tests.servers.binaries import Installation, server_user
from tests.servers.postgres import PostgresServer, wait_for_server
from tests.servers.process import free_port
from tests.servers.shared import find_postgres, run_folder

_SYNCHRONOUS = "-c synchronous_standby_names=*"


class TcpServer(PostgresServer):
    """A server that listens on a port of this machine."""

    def __init__(self, installation: Installation, folder: Path) -> None:
        super().__init__(installation, folder)
        self.installation = installation
        self.port = free_port()

    def url_of(self, database: str) -> str:
        return f"postgresql://rota@127.0.0.1:{self.port}/{database}"

    def start(self, *options: str) -> None:
        place = f"-c listen_addresses=127.0.0.1 -c port={self.port}"
        super().start(place, _SYNCHRONOUS, *options)

    def follow(self, primary: "TcpServer") -> None:
        """Become a standby of another server, with a new copy of all it has."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700)
        user = server_user()
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        copy = (f"--pgdata={self.folder / 'data'}", f"--dbname={primary.url}")
        options = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        made = self.installation.run("pg_basebackup", *copy, *options)
        assert made.returncode == 0, f"pg_basebackup ended with {made.returncode}:\n{primary.log}"
        self.start()
        wait_for_server(primary.has_standby, lambda: f"no standby came about:\n{self.log}")

    def has_standby(self) -> bool:
        """Whether what is written here is also on a standby when it is acknowledged."""
        asked = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(asked).fetchone() == (1,)

    def promote(self) -> None:
        made = self.installation.run("pg_ctl", "promote", f"--pgdata={self.folder / 'data'}")
        assert made.returncode == 0, f"the standby was not promoted:\n{self.log}"


class PostgresPair:
    """The two servers; ``fail_over`` changes their parts."""

    def __init__(self, primary: TcpServer, standby: TcpServer) -> None:
        self.primary = primary
        self.standby = standby
        self.url = f"postgresql://rota@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"

    def fail_over(self) -> None:
        """Kill the primary with kill -9; the standby takes over."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def restore(self) -> None:
        """The one that was killed follows the other; until then no write is acknowledged."""
        self.standby.follow(self.primary)


@contextmanager
def postgres_pair() -> Iterator[PostgresPair]:
    """Two servers, whose folders are gone in the end."""
    installation, folder = find_postgres(), run_folder()
    first, second = (
        TcpServer(installation, folder / f"postgres-{name}-{token_hex(4)}")
        for name in ("first", "second")
    )
    try:
        first.create()
        first.start()
        second.follow(first)
        yield PostgresPair(first, second)
    finally:
        first.remove()
        second.remove()
