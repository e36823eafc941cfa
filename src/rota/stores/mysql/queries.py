"""The statements of ``queries.sql``."""

from rota.stores.statements import Statements

QUERIES = Statements("rota.stores.mysql")
