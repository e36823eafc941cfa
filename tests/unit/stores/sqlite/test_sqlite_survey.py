"""A survey of a file reads only the indexes of what waits, runs or is dead."""

from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from rota.stores.sqlite.connection import MIGRATIONS, migrate
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
INDEXES = ("jobs_in_line", "jobs_later_by_queue", "jobs_leased", "jobs_dead")


@pytest.fixture
def plan() -> list[str]:
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS)
    steps = connection.execute(f"EXPLAIN QUERY PLAN {QUERIES.survey}", (0, None))
    return [step[3] for step in steps]


def test_each_part_reads_the_index_that_is_meant_for_it(plan: list[str]) -> None:
    reads = [step for step in plan if " jobs" in step]
    assert len(reads) == len(INDEXES)
    for index in INDEXES:
        assert any(f"INDEX {index}" in step for step in reads), plan


def test_waiting_jobs_are_counted_in_the_index_alone(plan: list[str]) -> None:
    for index in ("jobs_in_line", "jobs_later_by_queue"):
        assert any(f"COVERING INDEX {index}" in step for step in plan), plan


async def test_the_survey_leaves_out_damaged_jobs(store: SqliteStore, path: Path) -> None:
    await store.insert([a_job(queue="damaged"), a_job(queue="whole")], NOW)
    with apsw.Connection(str(path)) as other:
        other.execute(
            "UPDATE jobs SET set_aside = 'damaged', is_due = NULL, ending = 'exhausted'"
            " WHERE queue = 'damaged'"
        )
    other.close()
    assert [depth.queue for depth in await store.survey(NOW)] == ["whole"]
