"""The one thread that reads, on a connection of its own: a long scan never holds up a write."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import apsw

from rota.stores.lane import Lane, open_lane
from rota.stores.protocol import Document
from rota.stores.sqlite.connection import SqliteSettings, open_reader
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import translated

PAGE_LENGTH = 1000


class Reader:
    """Reads what has been committed by anyone, in the thread of its lane."""

    def __init__(self, connection: apsw.Connection, lane: Lane, path: Path) -> None:
        self._connection = connection
        self._lane = lane
        self._path = path

    @classmethod
    async def open(cls, settings: SqliteSettings) -> Self:
        """A reader of a file that a writer has made ready."""
        lane, connection = await open_lane("rota-sqlite-reader", lambda: open_reader(settings))
        return cls(connection, lane, settings.path)

    async def close(self) -> None:
        """Answer what has been asked, then let the file go."""
        await self._lane.run(self._connection.close)
        self._lane.end()

    async def read_page(self, collection: str, after: str) -> list[Document]:
        """The documents that follow the key ``after``, up to ``PAGE_LENGTH`` of them."""
        page = (collection, after, PAGE_LENGTH)
        return await self._lane.run(lambda: self._select(QUERIES.scan_page, page))

    async def read_keys(self, collection: str, keys: Sequence[str]) -> list[Document]:
        """The documents that exist among ``keys``."""
        wanted = (collection, json.dumps(keys))
        return await self._lane.run(lambda: self._select(QUERIES.read_keys, wanted))

    def _select(self, statement: str, values: tuple[str | int, ...]) -> list[Document]:
        with translated(self._path):
            return list(map(Document._make, self._connection.execute(statement, values)))
