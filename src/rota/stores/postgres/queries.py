"""The statements of ``queries.sql`` by attribute. A test checks that all of them are used."""

import re
from functools import lru_cache

from rota.stores.postgres.address import DEFAULT_SCHEMA
from rota.stores.statements import Statements

_SCHEMA = re.compile(rf"\b{DEFAULT_SCHEMA}\b")

QUERIES = Statements("rota.stores.postgres")


@lru_cache(maxsize=256)
def placed(statement: str, schema: str) -> str:
    """The statement with its tables in ``schema``, whose name needs no quoting."""
    return _SCHEMA.sub(schema, statement)
