"""A store on MariaDB, another on the same database, and connections of a caller's own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.servers.mariadb import connect_to, open_mysql

from rota.stores.mysql.store import MysqlStore


@pytest.fixture
async def store(mysql_url: str) -> AsyncIterator[MysqlStore]:
    async with await open_mysql(mysql_url) as store:
        yield store


@pytest.fixture
async def elsewhere(mysql_url: str, store: MysqlStore) -> AsyncIterator[MysqlStore]:
    """As another process has it."""
    assert store is not None
    async with await open_mysql(mysql_url) as beside:
        yield beside


@pytest.fixture
async def connection(mysql_url: str, store: MysqlStore) -> AsyncIterator[Any]:
    assert store is not None
    connection = await connect_to(mysql_url)
    yield connection
    await connection.ensure_closed()
