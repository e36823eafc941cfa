"""Statements whose pages are counted."""

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

import asyncpg

from rota.stores.postgres.queries import placed

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Watched:
    """Runs statements, and counts the pages that they read: explained, then rolled back."""

    is_callers = False

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self.schema = schema
        self.page_count = 0
        self.is_counting = False

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        text = placed(statement, self.schema)
        if self.is_counting:
            await self._explain(text, arguments)
        return await self._connection.fetch(text, *arguments)

    async def _explain(self, text: str, arguments: Sequence[Any]) -> None:
        asked = f"EXPLAIN (FORMAT JSON, ANALYZE, BUFFERS) {text}"
        await self._connection.execute("BEGIN")
        (plan,) = json.loads(await self._connection.fetchval(asked, *arguments))
        await self._connection.execute("ROLLBACK")
        self.page_count += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def counting_on(self) -> AbstractAsyncContextManager[object]:
        """Within one transaction the server's own counts go on, however long it takes.

        Outside it starts them again after each statement that ends a second after the last time.
        """
        return self._connection.transaction()
