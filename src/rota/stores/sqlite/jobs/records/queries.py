"""The statements of ``queries.sql`` by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement by name; what each does is said in the file."""

    dump_documents: str
    dump_jobs: str
    dump_attempts: str
    dump_parents: str
    load_unreadable: str
    load_awaited: str
    load_open_counts: str


QUERIES = Queries(**load_statements("rota.stores.sqlite.jobs.records", "queries.sql"))
