"""The statements of ``queries.sql`` by attribute; one missing or too many fails on import."""

import re
from dataclasses import dataclass
from functools import lru_cache

from rota.stores.statements import load_statements

DEFAULT_SCHEMA = "rota"
_SCHEMA = re.compile(rf"\b{DEFAULT_SCHEMA}\b")


@dataclass(frozen=True, slots=True)
class Queries:
    """Every statement of the backend by name; what each does is said in the file."""

    read_surroundings: str
    begin_write: str
    commit: str
    roll_back: str
    wait_for_locks: str
    lock_schema: str
    create_schema: str
    create_migrations: str
    read_migrations: str
    record_migration: str
    scan_page: str
    read_keys: str
    apply_writes: str


QUERIES = Queries(**load_statements("rota.stores.postgres", "queries.sql"))


@lru_cache(maxsize=256)
def placed(statement: str, schema: str) -> str:
    """The statement with its tables in ``schema``, whose name needs no quoting."""
    return _SCHEMA.sub(schema, statement)
