"""One empty server for each measurement: ``mongod`` where there is one, else its stand-in.

The stand-in speaks MongoDB's protocol and keeps its documents in an SQLite file. It takes
milliseconds for each document it writes, so fewer jobs are measured on it.
"""

import json
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from tests.servers.mongo import MongoServer, find_program

DATABASE = "rota"
STAND_IN_JOBS = 1_000
"""How many jobs are measured at most on a server that is not ``mongod``."""


class NoMongoError(Exception):
    """There is no MongoDB on this machine that could be started, nor its stand-in."""


class MongoPlace:
    """A server, and the client through which the harness looks at it."""

    def __init__(self, folder: Path, number: int) -> None:
        program = find_program("--unordered")
        if program is None:
            raise NoMongoError("neither mongod nor a Python 3.13 for the stand-in")
        self._server = MongoServer(program, folder / f"mongo-{number}")
        self._server.create()
        self._server.start()
        self._client: MongoClient[dict[str, Any]] = MongoClient(self._server.url)
        self.settings = {"url": self._server.url.replace("/?", f"/{DATABASE}?")}

    @property
    def server_process_id(self) -> int | None:
        return self._server.process_id

    def settle(self) -> None:
        """Nothing is written later than it is acknowledged."""

    def is_pending(self, question: str) -> bool:
        """Whether a collection has a document that a filter accepts: both, as JSON, in a list."""
        collection, where = json.loads(question)
        return self._client[DATABASE][collection].find_one(where, ["_id"]) is not None

    def close(self) -> None:
        self._client.close()
        self._server.remove()


def most_jobs() -> int | None:
    """How many jobs the server at hand is quick enough for; None when it is a real one."""
    program = find_program()
    return None if program is None or program.name == "mongod" else STAND_IN_JOBS


def describe_mongo() -> str:
    """What runs, and how many jobs it is given."""
    program, most = find_program(), most_jobs()
    name = "none" if program is None else program.name
    shown = "" if most is None else f"; at most {most:,} jobs, for it is slow"
    return f"{name}, standalone, w=majority with the journal{shown}"
