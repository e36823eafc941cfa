"""A keeper of leases: a connection of its own, in an event loop of its own, in the caller's thread.

The loop turns only while a call waits for its answer.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import asyncpg
from asyncpg import Connection, Record

from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import session_settings
from rota.stores.postgres.jobs.leasing import extend
from rota.stores.postgres.session import Session
from rota.stores.postgres.translation import (
    DRIVER_ERRORS,
    LOST_CONNECTION,
    NOTHING_WRITTEN,
    translated,
)
from rota.stores.protocol import HeldLease
from rota.triggers.zone import to_utc


class PostgresKeeper:
    """Extends leases while the store's own event loop may be busy."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._runner: asyncio.Runner | None = None
        self._connection: Connection[Record] | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """As the store's own; the thread waits for the answer."""
        to_utc(now, "now")
        until = to_utc(until, "until")
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._extend(held, until))

    def close(self) -> None:
        """Let the connection go, with a word to the server if it listens."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        try:
            runner.run(self._disconnect())
        finally:
            runner.close()

    async def _extend(self, held: Sequence[HeldLease], until: datetime) -> list[bool]:
        is_new = self._connection is None or self._connection.is_closed()
        connection = await self._connected()
        with translated(self._settings.label):
            try:
                return await extend(Session(connection, self._settings), held, until)
            except LOST_CONNECTION as error:
                # While nobody asked, the loop did not turn, and a loss was not noticed.
                if is_new or isinstance(error, TimeoutError):
                    raise
        connection.terminate()
        return await self._extend(held, until)

    async def _connected(self) -> "Connection[Record]":
        if self._connection is None or self._connection.is_closed():
            with translated(self._settings.label, NOTHING_WRITTEN):
                self._connection = await asyncpg.connect(
                    self._settings.url,
                    timeout=self._settings.connect_for.total_seconds(),
                    server_settings=session_settings(self._settings),
                )
        return self._connection

    async def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(*DRIVER_ERRORS):
                await self._connection.close(timeout=self._settings.connect_for.total_seconds())
            self._connection = None
