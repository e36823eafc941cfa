"""A program that knows only the first migration, on a store that has been through later ones.

It is put through the whole contract of documents, which is all that it knew.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.process.stores.newer_version import upgrade, write_migration

from rota.runtime.wiring import open_store
from rota.stores.postgres import schema
from rota.stores.protocol import DocumentStore
from rota.stores.sqlite import connection
from rota.testing.store_contract import LastingStoreContract, StoreContract, StoreFactory

NEWER = """
ALTER TABLE T.documents ADD COLUMN note text;
CREATE INDEX by_note ON T.documents (note);
CREATE TABLE T.further (a text);
"""


def opened_after_upgrade(url: str, forget: Callable[[], None]) -> StoreFactory:
    """Opens the store as the older program; the first time a newer one has been there before."""
    is_upgraded = False

    async def open_as_older() -> DocumentStore:
        nonlocal is_upgraded
        if not is_upgraded:
            await upgrade(url, write_migration(url, "newer", NEWER))
            forget()
            is_upgraded = True
        return await open_store(url)

    return open_as_older


class TestOlderProgramOnSqlite(StoreContract, LastingStoreContract):
    @pytest.fixture
    def store_factory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Awaitable[DocumentStore]]:
        first = connection.MIGRATIONS[:1]
        return opened_after_upgrade(
            f"sqlite:///{tmp_path}/rota.db",
            lambda: monkeypatch.setattr(connection, "MIGRATIONS", first),
        )


class TestOlderProgramOnPostgres(StoreContract, LastingStoreContract):
    @pytest.fixture
    def store_factory(
        self, new_postgres_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[[], Awaitable[DocumentStore]]:
        first = schema.MIGRATIONS[:1]
        return opened_after_upgrade(
            new_postgres_url, lambda: monkeypatch.setattr(schema, "MIGRATIONS", first)
        )
