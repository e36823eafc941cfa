"""No statement walks past jobs that do not matter: each finds what it needs in an index."""

import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from rota.jobs import JobFilter, JobStatus, make_job_ids
from rota.stores.protocol import LeaseRequest
from rota.stores.sqlite.connection import MIGRATIONS, migrate
from rota.stores.sqlite.jobs import reading
from rota.stores.sqlite.jobs.queries import QUERIES
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STATEMENTS = asdict(QUERIES)
_PARAMETER = re.compile(r"\?(\d+)")
_KEPT = r"(?:jobs|needed|waiting|parents|job_dependencies|job_attempts)"
_WALK = re.compile(rf"SCAN {_KEPT}\b|TEMP B-TREE")

WHOLE_TABLES = {name for name in STATEMENTS if name.startswith("rescue_")}
"""They are there to read everything."""

IN_ORDER = {"first_later", "read_leased"}
"""One takes the first entry of the index of those due later, and no other; the other one reads all
of the index of those that are leased, and nothing else."""

FEW = {
    "find_running": "INDEX jobs_leased",
    "find_few_ready": "PRIMARY KEY (id=?)",
    "count_ready": "COVERING INDEX jobs_later",
    "read_dependents": "PRIMARY KEY (parent=?)",
}
"""They look at all of a few jobs, and put those in order."""

USES = {
    "promote": "jobs_later",
    "next_lane": "COVERING INDEX jobs_in_line ((tenant,queue)>(?,?))",
    "is_lane_due": "COVERING INDEX jobs_in_line (tenant=? AND queue=?)",
    "look_along": "COVERING INDEX jobs_in_line (tenant=? AND queue=?)",
    "look_along_level": "COVERING INDEX jobs_in_line (tenant=? AND queue=? AND priority=?)",
    "read_leased": "INDEX jobs_leased",
    "lease_lane": "COVERING INDEX jobs_in_line (tenant=? AND queue=?)",
    "lease_chosen": "PRIMARY KEY (id=?)",
    "extend": "PRIMARY KEY (id=?)",
    "move": "PRIMARY KEY (id=?)",
    "complete": "PRIMARY KEY (id=?)",
    "release": "PRIMARY KEY (parent=?)",
    "block": "PRIMARY KEY (parent=?)",
    "find_twin": "jobs_identity (tenant=? AND kind=? AND idempotency_key=? AND <expr>=?)",
    "find_ended": "COVERING INDEX jobs_ended",
    "read_expired": "INDEX jobs_leased ((lease_until,id)>(?,?) AND lease_until<?)",
    "first_later": "COVERING INDEX jobs_later",
    "first_later_of_tenants": "COVERING INDEX jobs_later",
    "first_later_of_queue": "COVERING INDEX jobs_later_by_queue (queue=?)",
    "first_later_of_both": "COVERING INDEX jobs_later_by_queue (queue=?)",
    "find": "INDEX jobs_listed (tenant=? AND created_at>? AND created_at<?)",
    "find_held_up": "INDEX jobs_held_up (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "count_held_up": "INDEX jobs_held_up (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "find_recurring": "jobs_recurring (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "count_recurring": "jobs_recurring (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "count": "INDEX jobs_listed (tenant=? AND created_at>? AND created_at<?)",
    "count_all": "COVERING INDEX jobs_listed (tenant=?)",
}


@pytest.fixture(scope="module")
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    migrate(connection, MIGRATIONS)
    return connection


def plan_of(connection: apsw.Connection, statement: str) -> str:
    count = max((int(number) for number in _PARAMETER.findall(statement)), default=0)
    steps = connection.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * count)
    return "\n".join(step[3] for step in steps)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - WHOLE_TABLES - IN_ORDER - FEW.keys()))
def test_nothing_is_walked_through_or_sorted(connection: apsw.Connection, name: str) -> None:
    plan = plan_of(connection, STATEMENTS[name])
    allowed = {"first_later_of_tenants"}  # in the index, up to the first of theirs
    assert name in allowed or not _WALK.search(plan), plan


@pytest.mark.parametrize("name", sorted(FEW))
def test_lists_of_a_few_do_not_look_at_all_jobs(connection: apsw.Connection, name: str) -> None:
    plan = plan_of(connection, STATEMENTS[name])
    assert FEW[name] in plan
    assert "jobs_listed" not in plan
    assert not re.search(r"SCAN jobs(?! USING)", plan)


@pytest.mark.parametrize("name", sorted(USES))
def test_each_hot_statement_has_its_index(connection: apsw.Connection, name: str) -> None:
    plan = plan_of(connection, STATEMENTS[name])
    assert USES[name] in plan
    assert "TEMP B-TREE" not in plan


def test_a_walk_is_seen(connection: apsw.Connection) -> None:
    assert _WALK.search(plan_of(connection, "SELECT * FROM jobs WHERE kind = 1"))
    assert (
        _WALK.search(plan_of(connection, "SELECT * FROM jobs WHERE id = ?1 ORDER BY body")) is None
    )
    assert _WALK.search(plan_of(connection, "SELECT * FROM jobs ORDER BY body"))


@pytest.mark.parametrize(
    "choice", [{}, {"queues": ["q"]}, {"tenants": ["t"]}, {"after_tenant": "t"}]
)
async def test_a_lease_takes_as_many_steps_however_long_the_lanes_are(
    store: SqliteStore, choice: dict[str, Any]
) -> None:
    """A plan does not tell what an index walks past: the steps of its program do."""
    request = LeaseRequest(worker="w", limit=10, lease_for=MINUTE, **choice)
    step_counts = []
    for added_count in (200, 20_000):
        await add_to_two_lanes(store, added_count)
        steps: list[int] = []
        await store._writer.run(partial(count_steps, steps))
        assert len(await store.lease(request, NOW)) == 10
        step_counts.append(sum(steps))
    short, long = step_counts
    assert 0 < long <= 1.5 * short


async def add_to_two_lanes(store: SqliteStore, count: int) -> None:
    pattern = a_job(tenant="t", queue="q", due_at=NOW, created_at=NOW, updated_at=NOW)
    made_ids = make_job_ids(NOW, count, count)
    jobs = [replace(pattern, id=job_id) for job_id in made_ids]
    jobs[::2] = [replace(job, queue="r") for job in jobs[::2]]
    await store.insert(jobs, NOW)


def count_steps(steps: list[int], connection: apsw.Connection) -> None:
    """Have the steps of every statement noted from now on."""

    def note(event: dict[str, Any]) -> None:
        steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)


async def test_a_page_of_ready_jobs_is_the_same_whether_they_are_few_or_many(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [
        a_job(created_at=NOW + number % 3 * MINUTE, due_at=NOW + number % 2 * MINUTE)
        for number in range(20)
    ]
    await store.insert([*jobs, a_job(tenant="other")], NOW)
    wanted = JobFilter(status=JobStatus.READY)
    few = await store.find("default", wanted, limit=7)
    monkeypatch.setattr(reading, "FEW", 0)
    assert await store.find("default", wanted, limit=7) == few
    assert len(few.items) == 7
