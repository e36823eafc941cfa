"""The schema of a store: which indexes there are, and which version of Rota made them."""

from pymongo import UpdateOne

from rota.clock.in_flight import in_flight
from rota.errors import SchemaOutdatedError
from rota.stores.mongo.connection import Connection
from rota.stores.mongo.gateway import Gateway, Query
from rota.stores.mongo.schema.indexes import INDEXES
from rota.stores.mongo.steps.names import SCHEMA
from rota.stores.mongo.translation import translated

SCHEMA_VERSION = 1
"""Grows with each change that programs before it cannot work with."""

_MARK = "schema"


async def prepare(connection: Connection) -> None:
    """Make the database ready, or bring it up to date; complete what others have left undone."""
    version = await read_version(connection.gateway)
    check_version(version)
    if version < SCHEMA_VERSION:
        await _create_indexes(connection)
        mark = UpdateOne({"_id": _MARK}, {"$set": {"version": SCHEMA_VERSION}}, upsert=True)
        await connection.gateway.write(SCHEMA, [mark])
    await connection.sweeper.sweep()


async def read_version(gateway: Gateway) -> int:
    """The version the database is at; 0 when it is none of Rota's yet."""
    found = await gateway.find(Query(SCHEMA, {"_id": _MARK}))
    return int(found[0]["version"]) if found else 0


def check_version(version: int) -> None:
    """Refuse a database that a later version of Rota has changed."""
    if version > SCHEMA_VERSION:
        raise SchemaOutdatedError(
            f"The store was changed by a newer version of Rota (schema {version}), which this "
            f"version cannot work with: upgrade Rota",
            {"migration": version, "name": "schema"},
        )


async def _create_indexes(connection: Connection) -> None:
    for name in sorted({index.collection for index in INDEXES}):
        models = [index.model for index in INDEXES if index.collection == name]
        with translated(connection.gateway.label), in_flight():
            await connection.database[name].create_indexes(models)
