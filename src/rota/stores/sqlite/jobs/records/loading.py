"""``load``: records are put into the file as they are."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import apsw

from rota.jobs import JobId
from rota.stores.kernel.records import seal
from rota.stores.protocol import KeptDocument, KeptJob, Record, UnreadableJob
from rota.stores.sqlite import queries as store_queries
from rota.stores.sqlite.jobs import queries as job_queries
from rota.stores.sqlite.jobs.records.queries import QUERIES
from rota.stores.sqlite.jobs.rows import Row, encode_attempt, encode_ids, encode_job

_WHY = "it could not be read in the store it was copied from"


class Loaded(NamedTuple):
    """Records as rows, each with the rows that come along if it is new."""

    documents: Sequence[Row]
    jobs: Sequence[tuple[Row, Sequence[Row]]]
    unreadable: Sequence[Row]
    edges: Sequence[tuple[JobId, JobId]]

    @classmethod
    def of(cls, records: Sequence[Record], now: datetime) -> "Loaded":
        """The rows are made at once, in the caller's thread."""
        jobs = [each for each in records if isinstance(each, KeptJob)]
        unreadable = [each for each in records if isinstance(each, UnreadableJob)]
        return cls(
            [tuple(each) for each in records if isinstance(each, KeptDocument)],
            [(encode_job(each.job, now), [*map(encode_attempt, each.attempts)]) for each in jobs],
            [
                (each.job_id, each.tenant, each.queue, seal(each.content), _WHY)
                for each in unreadable
            ],
            [
                *((parent, each.job.id) for each in jobs for parent in each.job.dependencies),
                *((parent, each.job_id) for each in unreadable for parent in each.dependencies),
            ],
        )

    @property
    def job_ids(self) -> list[JobId]:
        return [row[0] for row, _ in self.jobs] + [row[0] for row in self.unreadable]


def load(connection: apsw.Connection, loaded: Loaded) -> int:
    """Keep what is new; how much that was."""
    new_count = _insert_all(connection, store_queries.QUERIES.restore, loaded.documents)
    new_count += _insert_all(connection, QUERIES.load_unreadable, loaded.unreadable)
    for row, attempts in loaded.jobs:
        connection.execute(job_queries.QUERIES.insert, row)
        if connection.changes():
            new_count += 1
            connection.executemany(job_queries.QUERIES.add_attempt, attempts)
    _link(connection, loaded)
    return new_count


def _insert_all(connection: apsw.Connection, statement: str, rows: Sequence[Row]) -> int:
    before = connection.total_changes()
    connection.executemany(statement, rows)
    return connection.total_changes() - before


def _link(connection: apsw.Connection, loaded: Loaded) -> None:
    """Write who depends on whom, and count for whom is waited, as far as they have come."""
    ids = loaded.job_ids
    if not ids:
        return
    connection.executemany(job_queries.QUERIES.add_dependency, loaded.edges)
    named = encode_ids({*ids, *(parent for parent, _ in loaded.edges)})
    connection.execute(QUERIES.load_awaited, (named,))
    connection.execute(QUERIES.load_open_counts, (encode_ids(ids),))
