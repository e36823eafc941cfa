"""Plans: each statement goes through the index that is meant for it, however full the table is.

A plan is made once per connection and kept, so the one for an empty table must do for a full one.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import pytest

from rota.jobs.fields import LOWEST_ID
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.dialling import session_settings
from rota.stores.postgres.lease import warm_up
from rota.stores.postgres.queries import QUERIES, placed
from rota.stores.postgres.store import PostgresStore
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Plan: TypeAlias = dict[str, Any]

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROW_COUNT = 1_000
STATEMENTS = dict(vars(QUERIES))
for verb in ("find", "count"):
    for name in ("held_up", "dead", "recurring", "ready"):
        listed = STATEMENTS[f"{verb}_listed"].replace(":jobs", STATEMENTS[f"list_{name}"])
        STATEMENTS[f"{verb}_{name}"] = listed
FEW = 60
"""Rows that a statement may look at for ten that it needs."""

INDEXES = {
    "read_jobs": {"jobs_by_id"},
    "lock_jobs": {"jobs_by_id"},
    "find_twins": {"jobs_by_identity"},
    "mark_awaited": {"jobs_by_id"},
    "unmark_awaited": {"jobs_by_id", "job_dependencies_by_parent"},
    "lease": {"jobs_in_line", "jobs_later", "jobs_by_id"},
    "lease_in_turns": {"jobs_in_line", "jobs_later", "jobs_by_id"},
    "find_partitions": {"jobs_in_line"},
    "find_first": {"jobs_in_line"},
    "take_jobs": {"jobs_by_id"},
    "mark_due": {"jobs_later", "jobs_by_id"},
    "count_running": {"jobs_leased"},
    "next_due_after": {"jobs_later"},
    "extend": {"jobs_by_id"},
    "find_expired": {"jobs_leased"},
    "next_due": {"jobs_in_line", "jobs_later"},
    "next_due_in": {"jobs_in_line", "jobs_later_in_lane"},
    "complete_jobs": {"jobs_by_id"},
    "move_jobs": {"jobs_by_id"},
    "find_children": {"job_dependencies_by_parent"},
    "find_waiting": {"job_dependencies_by_parent", "jobs_by_id"},
    "find_ancestors": {"job_dependencies_by_child"},
    "remove_dependencies": {"job_dependencies_by_child"},
    "remove_jobs": {
        *("jobs_by_id", "job_attempts_by_job", "job_results_by_job"),
        "open_dependencies_by_job",
    },
    "read_open": {"open_dependencies_by_job"},
    "count_open": {"job_dependencies_by_child", "jobs_by_id"},
    "remove_open": {"open_dependencies_by_job"},
    "mark_watched": {"jobs_by_id"},
    "read_results": {"job_results_by_job", "jobs_by_id"},
    "dump_results": {"job_results_by_job"},
    "read_attempts": {"job_attempts_by_job", "jobs_by_id"},
    "place_jobs": {"jobs_by_id", "open_dependencies_by_job"},
    "lock_waiting": {"jobs_by_id"},
    "amend_job": {"jobs_by_id"},
    "set_aside": {"jobs_by_id"},
    "find_ended": {"jobs_ended", "job_dependencies_by_child"},
    "find_parents": {"job_dependencies_by_child"},
    "find_page": {"jobs_listed", "jobs_leased"},
    "count_page": {"jobs_listed", "jobs_leased"},
    "find_held_up": {"jobs_held_up"},
    "count_held_up": {"jobs_held_up"},
    "find_dead": {"jobs_dead"},
    "count_dead": {"jobs_dead"},
    "find_ready": {"jobs_in_line", "jobs_later_in_lane", "jobs_by_id"},
    "count_waiting": {"jobs_in_line", "jobs_later_in_lane"},
    "find_recurring": {"jobs_recurring"},
    "count_recurring": {"jobs_recurring"},
}
IN_ORDER = (
    *("read_jobs", "lock_jobs", "lock_waiting", "mark_due", "find_expired", "next_due"),
    *("find_ended", "find_held_up", "find_dead", "find_recurring", "next_due_after"),
)
"""Nothing is sorted: the index gives what is wanted in the order in which it is wanted."""


def nodes_of(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


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


async def explain(
    inside: Connection, schema: str, name: str, *arguments: str, does_it: bool = False
) -> list[Plan]:
    """The nodes of the plan that is kept for a statement."""
    statement = placed(STATEMENTS[name], schema)
    count = max(map(int, re.findall(r"\$(\d+)", statement)), default=0)
    values = arguments or ("NULL",) * count
    given = f"({', '.join(values)})" if values else ""
    options = "FORMAT JSON, ANALYZE, BUFFERS, WAL" if does_it else "FORMAT JSON"
    await inside.execute(f"PREPARE asked AS {statement}")
    text = await inside.fetchval(f"EXPLAIN ({options}) EXECUTE asked{given}")
    await inside.execute("DEALLOCATE asked")
    (plan,) = json.loads(text)
    return list(nodes_of(plan["Plan"]))


KINDS = ("ended", "running", "later", "ready", "ready elsewhere")


async def add(store: PostgresStore, inside: Connection, count: int, *kinds: str) -> None:
    """This many jobs of each kind. The server's statistics stay out of date."""
    await inside.execute(
        placed(
            "INSERT INTO rota.jobs (id, due_at, created_at, updated_at, last_token, priority,"
            " attempt_count, loss_count, is_due, is_awaited, status, tenant, queue, body,"
            " lease_until)"
            " SELECT gen_random_uuid(), due_at, '2026-01-01Z'::timestamptz + n * interval '1 ms',"
            " '2026-01-01Z', 0, 5, 0, 0, is_due, false, status, 'default', queue, '{}', until"
            " FROM generate_series(1, $1::integer) AS n, (VALUES"
            " ('ended', 'COMPLETED', NULL::boolean, '2026-01-01Z'::timestamptz, 'default', NULL),"
            " ('running', 'RUNNING', NULL, '2026-01-01Z', 'default', '2026-01-02Z'::timestamptz),"
            " ('later', 'READY', false, '2026-02-01Z', 'default', NULL),"
            " ('ready', 'READY', true, '2026-01-01Z', 'default', NULL),"
            " ('ready elsewhere', 'READY', true, '2026-01-01Z', 'other', NULL)"
            ") AS kind (name, status, is_due, due_at, queue, until)"
            " WHERE name = ANY ($2::text[])",
            store._settings.schema,
        ),
        count,
        kinds,
    )


async def analyse(store: PostgresStore, inside: Connection) -> None:
    """Statistics as of now; nothing else updates them."""
    schema = store._settings.schema
    await inside.execute(placed("ALTER TABLE rota.jobs SET (autovacuum_enabled = off)", schema))
    await inside.execute(placed("ANALYZE rota.jobs", schema))


async def fill(store: PostgresStore, inside: Connection) -> None:
    """Many jobs that have ended, that run, that are due later and that wait; analysed."""
    await add(store, inside, ROW_COUNT, *KINDS)
    await analyse(store, inside)


@pytest.mark.parametrize("is_full", [False, True], ids=["empty", "full"])
@pytest.mark.parametrize("name", INDEXES)
async def test_a_statement_goes_through_the_index_that_is_meant(
    store: PostgresStore, inside: Connection, name: str, is_full: bool
) -> None:
    if is_full:
        await fill(store, inside)
    nodes = await explain(inside, store._settings.schema, name)
    assert {node["Index Name"] for node in nodes if "Index Name" in node} == INDEXES[name]
    types = {node["Node Type"] for node in nodes}
    assert not types & {"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join"}
    if name in IN_ORDER:
        assert "Sort" not in types


STALE = [
    (("ready",), ("later",)),
    (("ready",), ("ended",)),
    (("ended",), ("ready", "later")),
    (("later",), ("ready", "ready elsewhere")),
    ((), ("ended", "running", "later", "ready", "ready elsewhere")),
]


async def outdate(
    store: PostgresStore, inside: Connection, known: tuple[str, ...], added: tuple[str, ...]
) -> None:
    """Statistics that know some jobs, and twenty times as many that have come since then."""
    if known:
        await add(store, inside, 2_000, *known)
    await analyse(store, inside)
    await add(store, inside, 40_000 // len(added), *added)


@pytest.mark.parametrize(("known", "added"), STALE)
async def test_no_statement_follows_statistics_that_are_out_of_date(
    store: PostgresStore, inside: Connection, known: tuple[str, ...], added: tuple[str, ...]
) -> None:
    await outdate(store, inside, known, added)
    used = {}
    for name in INDEXES:
        nodes = await explain(inside, store._settings.schema, name)
        used[name] = {node["Index Name"] for node in nodes if "Index Name" in node}
    assert used == INDEXES


UNTIL = f"'{NOW + timedelta(minutes=1)}'"
ANY = ("NULL", "NULL")
PARTITION = ("'{default}'", "'{default}'")
NONE_FULL = ("'{}'",) * 4
TERMS = ("10", UNTIL, "'w'", *ANY, "true")
ONE_KIND = ("10", UNTIL, "'w'", "'{a job}'", "'{}'", "true")


def find_first(*priorities: str) -> tuple[str, ...]:
    count = len(priorities)
    same = [f"'{{{','.join([value] * count)}}}'" for value in ("default", "NULL")]
    places = (same[0], same[0], f"'{{{','.join(priorities)}}}'", same[1], same[1])
    return ("10", "'{}'", *places, *ANY, "10")


LEASES = [
    ("lease", ("'default'", "'default'", *TERMS)),
    ("lease", ("'default'", "'default'", *ONE_KIND)),
    ("lease_in_turns", (*ANY, "''", "18", *NONE_FULL, *ONE_KIND)),
    ("lease_in_turns", (*ANY, "''", "18", *NONE_FULL, *TERMS)),
    ("lease_in_turns", ("'{default}'", "NULL", "'default'", "18", *NONE_FULL, *TERMS)),
    ("lease_in_turns", ("NULL", "'{default}'", "'zzz'", "18", *NONE_FULL, *TERMS)),
    ("find_partitions", (*ANY, "''", "10", *NONE_FULL)),
    ("find_partitions", ("'{default}'", "NULL", "'default'", "10", *NONE_FULL)),
    ("find_partitions", ("NULL", "'{default}'", "'zzz'", "10", *NONE_FULL)),
    ("find_partitions", (*("'{default,nobody}'",) * 2, "''", "10", *NONE_FULL)),
    ("find_partitions", (*ANY, "''", "10", "'{default}'", "'{default}'", *PARTITION)),
    ("find_partitions", ("'{other}'", "'{default}'", "''", "10", "'{}'", "'{}'", *PARTITION)),
    ("find_first", find_first("NULL")),
    ("find_first", find_first(*map(str, range(1, 11)))),
]


@pytest.mark.parametrize(("known", "added"), STALE)
async def test_a_lease_reads_few_rows_with_any_statistics(
    store: PostgresStore, inside: Connection, known: tuple[str, ...], added: tuple[str, ...]
) -> None:
    await outdate(store, inside, known, added)
    for name, arguments in LEASES:
        asked = (f"'{NOW}'", *arguments)
        nodes = await explain(inside, store._settings.schema, name, *asked, does_it=True)
        assert max(seen(node) for node in nodes) <= FEW


@pytest.mark.parametrize(("name", "arguments"), LEASES)
async def test_a_lease_reads_few_rows_of_a_large_table(
    store: PostgresStore, inside: Connection, name: str, arguments: tuple[str, ...]
) -> None:
    await fill(store, inside)
    asked = (f"'{NOW}'", *arguments)
    nodes = await explain(inside, store._settings.schema, name, *asked, does_it=True)
    assert max(seen(node) for node in nodes) <= FEW


@pytest.mark.parametrize(("name", "arguments"), LEASES)
async def test_the_pages_a_lease_reads_do_not_grow_with_ready_jobs(
    store: PostgresStore, inside: Connection, name: str, arguments: tuple[str, ...]
) -> None:
    """What an index walks past is not among the rows that a plan has seen."""
    read_counts = []
    for added_count in (200, 20_000):
        await add(store, inside, added_count, "ready")
        schema, asked = store._settings.schema, (f"'{NOW}'", *arguments)
        root, *_ = await explain(inside, schema, name, *asked, does_it=True)
        read_counts.append(root["Shared Hit Blocks"] + root["Shared Read Blocks"])
    short, long = read_counts
    assert long <= 1.5 * short + 20


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("next_due", (f"'{NOW}'",)),
        ("next_due_in", (f"'{NOW}'", "'{default}'", "NULL")),
        ("next_due_in", (f"'{NOW}'", "NULL", "'{default}'")),
        ("next_due_in", (f"'{NOW}'", "'{quiet}'", "'{nobody}'")),
        ("mark_due", (f"'{NOW}'", "10")),
        ("find_expired", (f"'{NOW + timedelta(days=2)}'", "NULL", "NULL", "10")),
        ("find_ended", (f"'{NOW}'", "10", "'0001-01-01Z'", f"'{LOWEST_ID}'")),
        ("find_page", ("'default'", "NULL", "'READY'", *("NULL",) * 7, "10")),
        ("find_dead", ("'default'", *("NULL",) * 9, "10")),
        ("find_held_up", ("'default'", "NULL", "'FAILED'", *("NULL",) * 7, "10")),
        (
            "find_recurring",
            ("'default'", "NULL", "'READY'", *("NULL",) * 4, "true", *("NULL",) * 2, "10"),
        ),
    ],
)
async def test_a_query_reads_few_rows_of_a_large_table(
    store: PostgresStore, inside: Connection, name: str, arguments: tuple[str, ...]
) -> None:
    await fill(store, inside)
    nodes = await explain(inside, store._settings.schema, name, *arguments, does_it=True)
    assert max(seen(node) for node in nodes) <= FEW


@pytest.mark.parametrize("status", ["NULL", "'RUNNING'"])
async def test_a_list_of_running_jobs_reads_few_rows(
    store: PostgresStore, inside: Connection, status: str
) -> None:
    """Those that run are read all; they are no more than a fleet has places."""
    await add(store, inside, 20, "running")
    await add(store, inside, ROW_COUNT, "ended", "later", "ready", "ready elsewhere")
    await analyse(store, inside)
    arguments = ("'default'", "NULL", status, *("NULL",) * 7, "10")
    nodes = await explain(inside, store._settings.schema, "find_page", *arguments, does_it=True)
    assert max(seen(node) for node in nodes) <= FEW
    assert nodes[0]["Actual Rows"] == 10


async def test_completing_looks_up_each_job_once(store: PostgresStore, inside: Connection) -> None:
    await fill(store, inside)
    jobs = [a_job() for _ in range(20)]
    await store.insert(jobs, NOW)
    ids = f"'{','.join(job.id for job in jobs)}'"
    instants = ("'{2026-01-01Z}'",) * 3
    arguments = (ids, "'{1}'", "'{default}'", *instants, "'{}'", "'rota'")
    nodes = await explain(inside, store._settings.schema, "complete_jobs", *arguments, does_it=True)
    assert max(seen(node) for node in nodes) <= FEW


async def test_a_job_is_leased_by_four_writes_and_completed_by_four(
    store: PostgresStore, inside: Connection
) -> None:
    """Its row is locked and written, and beside its id it is in one index then, or in two.

    Each index that every job is in would be one write more, at each step. A row that moves to
    another page costs a write more as well, and which rows move depends on what else the server
    does: the cheapest of three rounds counts.
    """
    rounds = [await count_writes(store, inside) for _ in range(3)]
    assert 400 <= min(leased for leased, _ in rounds) < 500
    assert 400 <= min(completed for _, completed in rounds) < 500


async def count_writes(store: PostgresStore, inside: Connection) -> tuple[int, int]:
    """The records in the write-ahead log for leasing and for completing a hundred jobs."""
    jobs = [a_job(tenant="default") for _ in range(100)]
    await store.insert(jobs, NOW)
    schema = store._settings.schema
    lease = (f"'{NOW}'", "''", "'~'", "100", *TERMS[1:])
    leased, *_ = await explain(inside, schema, "lease", *lease, does_it=True)
    ids = f"'{','.join(sorted(job.id for job in jobs))}'"
    instants = ("'{2026-01-01Z}'", f"'{{{NOW}}}'", f"'{{{NOW}}}'")
    complete = (ids, "'{1}'", "'{default}'", *instants, "'{}'", "'rota'")
    completed, *_ = await explain(inside, schema, "complete_jobs", *complete, does_it=True)
    return leased["WAL Records"], completed["WAL Records"]


def seen(node: Plan) -> int:
    """How many rows a node has looked at, those it passed over among them."""
    rows = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return int((rows + node.get("Rows Removed by Join Filter", 0)) * node.get("Actual Loops", 1))


class Explaining:
    """Runs statements, and notes how many rows any part of their plans has looked at."""

    is_callers = False

    def __init__(self, inside: Connection, schema: str) -> None:
        self._inside = inside
        self.schema = schema
        self.most_seen = 0

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        explained = f"EXPLAIN (FORMAT JSON, ANALYZE) {placed(statement, self.schema)}"
        (plan,) = json.loads(await self._inside.fetchval(explained, *arguments))
        self.most_seen = max(self.most_seen, *map(seen, nodes_of(plan["Plan"])))
        return []

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


async def test_warming_up_reads_few_rows(store: PostgresStore, inside: Connection) -> None:
    await fill(store, inside)
    explaining = Explaining(inside, store._settings.schema)
    await warm_up(explaining)
    assert 0 < explaining.most_seen <= FEW
