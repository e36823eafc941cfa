"""The statements of ``queries.sql`` by attribute. A test checks that all of them are used."""

import re
from functools import lru_cache
from types import SimpleNamespace

from rota.stores.postgres.address import DEFAULT_SCHEMA
from rota.stores.statements import load_statements

_SCHEMA = re.compile(rf"\b{DEFAULT_SCHEMA}\b")

QUERIES = SimpleNamespace(**load_statements("rota.stores.postgres", "queries.sql"))


@lru_cache(maxsize=256)
def placed(statement: str, schema: str) -> str:
    """The statement with its tables in ``schema``, whose name needs no quoting."""
    return _SCHEMA.sub(schema, statement)
