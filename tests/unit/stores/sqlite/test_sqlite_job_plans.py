"""No statement walks past jobs that do not matter: each finds what it needs in an index."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from rota.jobs import JobFilter, JobStatus, make_job_ids
from rota.stores.protocol import LeaseRequest
from rota.stores.sqlite import read
from rota.stores.sqlite.connection import MIGRATIONS, migrate
from rota.stores.sqlite.store import SqliteStore
from rota.stores.statements import load_statements
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
FRAGMENTS = {"job_columns", "waiting_below", "listed"}
LOADED = load_statements("rota.stores.sqlite", "queries.sql")
LISTS = {
    name.removeprefix("list_"): text for name, text in LOADED.items() if name.startswith("list_")
}
STATEMENTS = {
    name: text
    for name, text in LOADED.items()
    if name not in FRAGMENTS and not name.startswith("list_") and "jobs" in text
}
for verb, lists in (("find", LISTS), ("count", LISTS.keys() - {"running", "few_ready"})):
    template = STATEMENTS.pop(f"{verb}_listed")
    STATEMENTS |= {f"{verb}_{name}": template.replace(":jobs", LISTS[name]) for name in lists}
_PARAMETER = re.compile(r"\?(\d+)")
_KEPT = r"(?:jobs|needed|waiting|parents|job_dependencies|job_attempts)"
_WALK = re.compile(rf"SCAN {_KEPT}\b|TEMP B-TREE")

WHOLE_TABLES = {
    *("check_edges", "count_jobs", "survey"),
}
"""They read everything, or have a test of their own."""

IN_ORDER = {"first_later", "find_leased"}
"""One reads the index of jobs that are due later, up to the first of the tenants; the other reads
all of the index of leased jobs, and nothing else."""

FEW = {
    "find_running": "INDEX jobs_leased",
    "find_few_ready": "PRIMARY KEY (id=?)",
    "count_ready": "COVERING INDEX jobs_later",
    "find_dependents": "PRIMARY KEY (parent=?)",
}
"""They look at all of a few jobs, and put those in order."""

USES = {
    "mark_due": "jobs_later",
    "next_partition": "COVERING INDEX jobs_in_line ((tenant,queue)>(?,?))",
    "find_due": "COVERING INDEX jobs_in_line (tenant=? AND queue=?)",
    "find_due_of_priority": "COVERING INDEX jobs_in_line (tenant=? AND queue=? AND priority=?)",
    "find_leased": "INDEX jobs_leased",
    "lease_jobs": "PRIMARY KEY (id=?)",
    "extend_lease": "PRIMARY KEY (id=?)",
    "move_job": "PRIMARY KEY (id=?)",
    "complete_job": "PRIMARY KEY (id=?)",
    "find_waiting": "PRIMARY KEY (parent=?)",
    "find_waiting_deep": "PRIMARY KEY (parent=?)",
    "find_twin": "jobs_identity (tenant=? AND kind=? AND idempotency_key=? AND <expr>=?)",
    "find_ended": "COVERING INDEX jobs_ended",
    "find_expired": "INDEX jobs_leased ((lease_until,id)>(?,?) AND lease_until<?)",
    "first_later": "COVERING INDEX jobs_later",
    "first_later_of_queue": "COVERING INDEX jobs_later_by_queue (queue=?)",
    "find_any": "INDEX jobs_listed (tenant=? AND created_at>? AND created_at<?)",
    "find_unsuccessful": "jobs_held_up (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "count_unsuccessful": "jobs_held_up (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "find_dead": "jobs_dead (tenant=? AND created_at>? AND created_at<?)",
    "count_dead": "jobs_dead (tenant=? AND created_at>? AND created_at<?)",
    "find_recurring": "jobs_recurring (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "count_recurring": "jobs_recurring (tenant=? AND status=? AND created_at>? AND created_at<?)",
    "count_any": "INDEX jobs_listed (tenant=? AND created_at>? AND created_at<?)",
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
    assert not _WALK.search(plan), plan


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
async def test_the_steps_of_a_lease_do_not_grow_with_partitions(
    store: SqliteStore, choice: dict[str, Any]
) -> None:
    """A plan does not tell what an index walks past: the steps of its program do."""
    request = LeaseRequest(worker="w", limit=10, lease_for=MINUTE, **choice)
    step_counts = []
    for added_count in (200, 20_000):
        await add_to_two_partitions(store, added_count)
        steps: list[int] = []
        await store._writer.run(partial(count_steps, steps))
        assert len(await store.lease(request, NOW)) == 10
        step_counts.append(sum(steps))
    short, long = step_counts
    assert 0 < long <= 1.5 * short


async def test_a_first_job_that_is_not_due_yet_costs_no_look_at_all_behind_it(
    store: SqliteStore,
) -> None:
    """As where the clock of the process that inserted it is ahead."""
    soon = NOW + timedelta(milliseconds=1)
    first = [a_job(tenant="t", queue=queue, priority=9, due_at=soon) for queue in "qr"]
    await store.insert(first, soon)
    request = LeaseRequest(worker="w", limit=10, lease_for=MINUTE)
    step_counts = []
    for added_count in (200, 20_000):
        await add_to_two_partitions(store, added_count)
        steps: list[int] = []
        await store._writer.run(partial(count_steps, steps))
        assert len(await store.lease(request, NOW)) == 10
        step_counts.append(sum(steps))
    short, long = step_counts
    assert 0 < long <= 1.5 * short


async def add_to_two_partitions(store: SqliteStore, count: int) -> None:
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
    monkeypatch.setattr(read, "FEW", 0)
    assert await store.find("default", wanted, limit=7) == few
    assert len(few.items) == 7
