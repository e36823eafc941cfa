"""Which list a page and a count read; the rest is that of all dialects."""

from rota.jobs import JobFilter
from rota.stores.mysql.connections import Session
from rota.stores.mysql.queries import QUERIES
from rota.stores.sql import read


class Reads(read.Reads[Session]):
    """Reads jobs."""

    def _choose_list(self, wanted: JobFilter) -> str:
        if wanted.only_dead:
            return QUERIES.list_dead
        if wanted.is_of_series:
            return QUERIES.list_recurring
        return QUERIES.list_any if wanted.status is None else QUERIES.list_of_status
