"""Schemas of PostgreSQL that one test uses after the other.

To create a schema takes longer than most tests do. So a schema is emptied and used again, if it is
still as the store's migrations make it and all connections that might write to it are gone.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from threading import Thread

import psycopg
from psycopg.sql import SQL, Identifier
from tests.servers.shared import with_option

from rota.runtime.wiring import open_store

_FEW = 300
"""Rows, up to which it is quicker to delete them than to give a table new files."""

_BACKENDS = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_TABLES = """
    SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migrations'
"""
_SHAPE = """
    WITH tables AS (
        SELECT pg_class.oid, relname, relkind, reloptions, relacl, nspname FROM pg_class
        JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %(schema)s
    )
    SELECT concat_ws(' ', relname, relkind, reloptions, relacl) FROM tables
    UNION ALL
    SELECT concat_ws(' ', relname, attname, atttypid, attnotnull, attstattarget, attstorage)
    FROM tables JOIN pg_attribute ON attrelid = tables.oid WHERE attnum > 0 AND relkind = 'r'
    UNION ALL
    SELECT replace(pg_get_indexdef(indexrelid), nspname, '') || indisvalid || indisreplident
    FROM tables JOIN pg_index ON indexrelid = tables.oid
    UNION ALL
    SELECT replace(concat_ws(' ', relname, conname, pg_get_constraintdef(made.oid)), nspname, '')
    FROM tables JOIN pg_constraint AS made ON conrelid = tables.oid
    UNION ALL
    SELECT concat_ws(' ', relname, tgname) FROM tables JOIN pg_trigger ON tgrelid = tables.oid
    UNION ALL
    SELECT concat_ws(' ', proname, prosrc) FROM pg_proc
    JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname = %(schema)s
    ORDER BY 1
"""


class Schemas:
    """The schemas in the database of one process of the test run."""

    def __init__(self, database_url: str, *, is_pooled: bool = False) -> None:
        """Of a pooler, idle connections stay: only those at work might still write."""
        self._url = database_url
        self._at_work = "AND state <> 'idle'" if is_pooled else ""
        self._connection = psycopg.connect(database_url, autocommit=True)
        self._connection.execute("SET lock_timeout = '5s'")
        self._left: deque[tuple[str, set[int]]] = deque()
        self._pristine: list[object] | None = None

    def take(self) -> str:
        """The name of a schema that is empty, or that no store has created yet."""
        present = self._find_backends() if self._left else set()
        for _ in range(len(self._left)):
            name, backends = self._left.popleft()
            if backends & present:
                self._left.append((name, backends))
            elif self._empty(name):
                return name
        return _new_name()

    def leave(self, name: str) -> None:
        """The test is over; what it had connected may not have noticed yet."""
        self._left.append((name, self._find_backends()))

    @contextmanager
    def use(self, database_url: str) -> Iterator[str]:
        """The address of an empty store, in a schema that is taken and left again."""
        name = self.take()
        yield with_option(database_url, "schema", name)
        self.leave(name)

    def close(self) -> None:
        self._connection.close()

    def _find_backends(self) -> set[int]:
        return {
            process_id
            for (process_id,) in self._connection.execute(f"{_BACKENDS} {self._at_work}".encode())
        }

    def _empty(self, name: str) -> bool:
        """Remove all rows; False if the schema is not as the migrations make it."""
        if self._pristine is None:
            self._pristine = self._describe(self._make_pristine())
        if self._describe(name) != self._pristine:
            return False
        for (table,) in self._connection.execute(_TABLES, [name]).fetchall():
            place = Identifier(name, table)
            removed = self._connection.execute(SQL("DELETE FROM {}").format(place)).rowcount
            if removed > _FEW:
                self._connection.execute(SQL("TRUNCATE {}").format(place))
        return True

    def _describe(self, name: str) -> list[object]:
        """Everything about a schema but the rows, and the rows of its migrations."""
        shape = self._connection.execute(_SHAPE, {"schema": name}).fetchall()
        if not shape:
            return []
        migrations = SQL("SELECT * FROM {} ORDER BY 1").format(Identifier(name, "migrations"))
        return [*shape, *self._connection.execute(migrations)]

    def _make_pristine(self) -> str:
        """A schema as a store makes it; in a thread, since an event loop may run in this one."""
        name = _new_name()
        url = with_option(self._url, "schema", name)
        opening = Thread(target=lambda: asyncio.run(_open_once(url)))
        opening.start()
        opening.join()
        return name


async def _open_once(url: str) -> None:
    await (await open_store(url)).close()


def _new_name() -> str:
    return f"test_{token_hex(6)}"
