"""The statements of ``queries.sql`` by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """What is asked of a file; what each statement does is said in the file of statements."""

    forbid_writing: str
    list_tables: str
    count_documents: str
    count_jobs: str
    survey: str


QUERIES = Queries(**load_statements("rota.stores.sqlite.inspection", "queries.sql"))
