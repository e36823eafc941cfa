"""Looks at a store on a server without changing it, and makes it ready when told to."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from rota.clock.idle import in_flight
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.migrations import AppliedMigration
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.connections import Connections, Examine
from rota.stores.redis.jobs.rows import status_of
from rota.stores.redis.keys import name_keys
from rota.stores.redis.scripts import Script, load_script
from rota.stores.redis.server.examination import (
    SCHEMA_VERSION,
    examine_server,
    find_problem,
    make_ready,
    read_facts,
    read_schema,
)

TALLY_DOCUMENTS = load_script("rota.stores.redis.documents", "tally")
TALLY_JOBS = load_script("rota.stores.redis.jobs.reading", "tally")


async def inspect_server(settings: RedisSettings) -> StoreInspection:
    """How the store stands; one that is missing is not made."""
    keys = name_keys(settings.name)
    async with _connected(settings) as connections:
        facts = await read_facts(connections.call, keys)
        version = await read_schema(connections, keys)
        if version is None:
            label, pending = settings.label, (_mark(SCHEMA_VERSION),)
            return StoreInspection(label, "Redis", facts.version, exists=False, pending=pending)
        documents = await _tally(connections, TALLY_DOCUMENTS, keys.documents)
        jobs = await _tally(connections, TALLY_JOBS, keys.jobs)
    statuses: Counter[str] = Counter()
    for code, number in jobs.items():
        statuses[status_of(code)] += number
    return StoreInspection(
        settings.label,
        "Redis",
        facts.version,
        applied=(_mark(version),),
        problem=find_problem(version),
        document_counts=documents,
        job_counts=statuses,
    )


async def migrate_server(settings: RedisSettings, _locked_for: timedelta) -> MigrationReport:
    """Make the store ready; there is nothing that others could keep locked."""
    keys = name_keys(settings.name)
    examine = partial(examine_server, settings.label, keys)
    async with _connected(settings, examine) as connections:
        before = await read_schema(connections, keys)
        await make_ready(connections, keys)
    made = () if before is not None else (_mark(SCHEMA_VERSION),)
    return MigrationReport(made, before or SCHEMA_VERSION)


@asynccontextmanager
async def _connected(
    settings: RedisSettings, examine: Examine | None = None
) -> AsyncIterator[Connections]:
    connections = Connections(settings, examine)
    try:
        with in_flight():
            yield connections
    finally:
        await connections.close()


async def _tally(connections: Connections, script: Script, keys: Sequence[str]) -> dict[str, int]:
    """Names and numbers, as a script gives them by turns."""
    found = await connections.run_script(script, (len(keys), *keys), is_repeatable=True)
    names = (name.decode() for name in found[::2])
    return dict(zip(names, found[1::2], strict=True))


def _mark(version: int) -> AppliedMigration:
    """How the keys are laid out, in the words for schemas."""
    return AppliedMigration(version, "keys", is_compatible=False, checksum="")
