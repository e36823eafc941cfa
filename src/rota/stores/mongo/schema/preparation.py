"""The schema of a store: which indexes there are, and which version of Rota made them."""

from pymongo import UpdateOne, timeout
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from rota.clock.idle import in_flight
from rota.errors import SchemaOutdatedError
from rota.stores.mongo.connection import Connection
from rota.stores.mongo.gateway import Gateway, Query, Raw
from rota.stores.mongo.schema.indexes import INDEXES, RETIRED
from rota.stores.mongo.steps.names import SCHEMA
from rota.stores.mongo.translation import translated

SCHEMA_VERSION = 2
"""Grows with each change that programs before it cannot work with."""

LONGEST_BUILD = 3600.0
"""For how many seconds indexes may be built: over jobs that are there, it takes its time."""

_MARK = "schema"
_NOT_THERE = 27


async def prepare(connection: Connection) -> None:
    """Make the database ready, or bring it up to date; complete what others have left undone."""
    version = await read_version(connection.gateway)
    check_version(version)
    await _create_indexes(connection)
    if version < SCHEMA_VERSION:
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
    """Make those that are missing, and remove those that serve nothing any more.

    Queries name the index by which they go, so each has to be there, whoever may have dropped one.
    """
    for name in sorted({index.collection for index in INDEXES}):
        collection = connection.database[name]
        with translated(connection.gateway.label), in_flight(), timeout(LONGEST_BUILD):
            present = await collection.index_information()
            wanted = [index for index in INDEXES if index.collection == name]
            missing = [index.model for index in wanted if index.name not in present]
            if missing:
                await collection.create_indexes(missing)
            for retired in present.keys() & set(RETIRED.get(name, ())):
                await _drop_index(collection, retired)


async def _drop_index(collection: AsyncCollection[Raw], name: str) -> None:
    try:
        await collection.drop_index(name)
    except OperationFailure as error:
        if error.code != _NOT_THERE:  # somebody else was quicker
            raise
