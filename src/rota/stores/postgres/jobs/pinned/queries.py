"""The statements of ``queries.sql`` by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """What is asked under a pinned horizon; what each statement does is said in the file."""

    read_horizon: str
    find_places: str
    lease_onward: str
    next_due_onward: str


QUERIES = Queries(**load_statements("rota.stores.postgres.jobs.pinned", "queries.sql"))
