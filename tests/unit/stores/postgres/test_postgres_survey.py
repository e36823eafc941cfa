"""A survey of a database reads only the indexes of what waits, runs or is dead."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import asyncpg
import pytest

from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.dialling import session_settings
from rota.stores.postgres.queries import QUERIES, placed
from rota.stores.postgres.store import PostgresStore
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Plan: TypeAlias = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
INDEXES = {"jobs_in_line", "jobs_later_in_lane", "jobs_leased", "jobs_dead"}
ENDED_COUNT = 2_000


@pytest.fixture
async def inside(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> AsyncIterator[Connection]:
    """A connection with the settings that those of the store have."""
    assert store is not None
    connection = await asyncpg.connect(
        postgres_settings.url, server_settings=session_settings(postgres_settings)
    )
    yield connection
    connection.terminate()


def nodes_of(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


async def explain(inside: Connection, schema: str) -> list[Plan]:
    await inside.execute(f"PREPARE asked AS {placed(QUERIES.survey, schema)}")
    text = await inside.fetchval(
        "EXPLAIN (FORMAT JSON, ANALYZE) EXECUTE asked('2026-01-01 12:00Z', NULL)"
    )
    (plan,) = json.loads(text)
    return list(nodes_of(plan["Plan"]))


async def add_ended(inside: Connection, schema: str) -> None:
    """Many jobs that were COMPLETED; the server's statistics say so."""
    statement = (
        "INSERT INTO rota.jobs (id, due_at, created_at, updated_at, last_token, priority,"
        " attempt_count, loss_count, is_awaited, status, tenant, queue, body)"
        " SELECT gen_random_uuid(), now(), now(), now(), 1, 5, 1, 0, false, 'COMPLETED',"
        " 'default', 'default', '{}' FROM generate_series(1, $1::integer)"
    )
    await inside.execute(placed(statement, schema), ENDED_COUNT)
    await inside.execute(placed("ANALYZE rota.jobs", schema))


@pytest.mark.parametrize("is_full", [False, True], ids=["empty", "full"])
async def test_each_part_reads_the_index_that_is_meant_for_it(
    store: PostgresStore, postgres_settings: PostgresSettings, inside: Connection, is_full: bool
) -> None:
    if is_full:
        await add_ended(inside, postgres_settings.schema)
    await store.insert([a_job(due_at=NOW) for _ in range(10)], NOW)
    nodes = await explain(inside, postgres_settings.schema)
    scans = [node for node in nodes if "Relation Name" in node]
    assert {node["Index Name"] for node in scans} == INDEXES
    read = sum(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in scans)
    assert read == 10


async def test_the_survey_leaves_out_damaged_jobs(store: PostgresStore, other: Connection) -> None:
    await store.insert([a_job(queue="damaged"), a_job(queue="whole")], NOW)
    await other.execute(
        "UPDATE jobs SET set_aside = 'damaged', status = 'DAMAGED', is_due = NULL,"
        " ending = 'exhausted' WHERE queue = 'damaged'"
    )
    assert [depth.queue for depth in await store.survey(NOW)] == ["whole"]


async def test_a_job_that_has_been_due_since_the_calendar_began_is_the_oldest(
    store: PostgresStore,
) -> None:
    first = datetime.min.replace(tzinfo=UTC)
    await store.insert([a_job(due_at=first)], NOW)
    (depth,) = await store.survey(NOW)
    assert depth.oldest_due_at == first
