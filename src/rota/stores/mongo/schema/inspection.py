"""Looks at a database without changing it, and brings it up to date when told to."""

from collections import Counter
from datetime import timedelta
from typing import Any

from rota.errors import SchemaOutdatedError
from rota.jobs import JobStatus
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.migrations import AppliedMigration
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.connection import Connection
from rota.stores.mongo.documents.queries import collection_of
from rota.stores.mongo.gateway import Gateway, Query
from rota.stores.mongo.schema.preparation import (
    SCHEMA_VERSION,
    check_version,
    prepare,
    read_version,
)
from rota.stores.mongo.steps.names import DOCUMENTS, JOBS, VERSION

_MARKS = (
    AppliedMigration(1, "documents_and_jobs", is_compatible=False, checksum=""),
    AppliedMigration(2, "indexes_of_what_is_there", is_compatible=False, checksum=""),
)
_STATUSES = frozenset(map(str, JobStatus))


async def inspect_database(settings: MongoSettings) -> StoreInspection:
    """How the database stands; one that is none of Rota's yet is left alone."""
    connection = await Connection.open(settings)
    try:
        return await connection.run(lambda: _inspect(connection, settings))
    finally:
        await connection.close()


async def migrate_database(settings: MongoSettings, _locked_for: timedelta) -> MigrationReport:
    """Make the database ready, or bring it up to date."""
    connection = await Connection.open(settings)
    try:
        before = await connection.run(lambda: read_version(connection.gateway))
        await connection.run(lambda: prepare(connection))
    finally:
        await connection.close()
    return MigrationReport(_MARKS[before:], max(before, SCHEMA_VERSION))


async def _inspect(connection: Connection, settings: MongoSettings) -> StoreInspection:
    gateway = connection.gateway
    version = await read_version(gateway)
    if not version:
        return StoreInspection(
            settings.label,
            "MongoDB",
            await connection.read_server_version(),
            exists=False,
            pending=_MARKS,
        )
    statuses = await _count_statuses(gateway)
    return StoreInspection(
        settings.label,
        "MongoDB",
        await connection.read_server_version(),
        applied=_MARKS[:version],
        pending=_MARKS[version:],
        problem=_find_problem(version),
        document_counts=await _count_documents(gateway),
        job_counts={each: count for each, count in statuses.items() if each in _STATUSES},
        set_aside_job_count=sum(count for each, count in statuses.items() if each not in _STATUSES),
    )


def _find_problem(version: int) -> str | None:
    try:
        check_version(version)
    except SchemaOutdatedError as error:
        return error.message
    return None


async def _count_statuses(gateway: Gateway) -> dict[str, int]:
    stages: list[dict[str, Any]] = [
        {"$match": {VERSION: {"$exists": True}}},
        {"$group": {"_id": "$status", "count": {"$sum": 1}}},
    ]
    found = await gateway.aggregate(JOBS, stages)
    return {raw["_id"]: raw["count"] for raw in found}


async def _count_documents(gateway: Gateway) -> dict[str, int]:
    """For operators: it looks at the id of every document."""
    there = {VERSION: {"$exists": True}}
    found = await gateway.find(Query(DOCUMENTS, there, fields=["_id"]))
    names = (collection_of(raw["_id"]) for raw in found)
    return dict(Counter(name for name in names if name is not None))
