"""The statements about limits by attribute; one missing or too many fails on import."""

from dataclasses import dataclass

from rota.stores.statements import load_statements


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement by name; what each does is said in the file."""

    lock_scopes: str
    count_running: str
    find_lanes: str
    look_along: str
    lease_chosen: str


QUERIES = Queries(**load_statements("rota.stores.postgres.jobs.limited", "queries.sql"))
