"""The store in a MariaDB or MySQL database."""

from typing import Self

from rota.jobs import JobFilter
from rota.stores.mysql.address import MysqlSettings
from rota.stores.mysql.connections import MysqlDatabase
from rota.stores.mysql.queries import QUERIES
from rota.stores.mysql.schema import open_database
from rota.stores.mysql.unit import Unit
from rota.stores.sql import read, store
from rota.stores.sql.server import ServerSession


class Reads(read.Reads[ServerSession]):
    """Reads jobs."""

    def _choose_list(self, wanted: JobFilter) -> str:
        if wanted.only_dead:
            return QUERIES.list_dead
        if wanted.is_of_series:
            return QUERIES.list_recurring
        return QUERIES.list_any if wanted.status is None else QUERIES.list_of_status


class MysqlStore(store.SqlStore):
    """See ``SqlStore``. A caller's own connection is one of asyncmy."""

    _database: MysqlDatabase
    _reads = _records = Reads()
    _unit = Unit

    @classmethod
    async def open(cls, settings: MysqlSettings) -> Self:
        """The store in a database; missing tables are created."""
        return cls(await open_database(settings), QUERIES)
