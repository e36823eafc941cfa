"""While another transaction pins the horizon, leases cost no more than before."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import asyncpg
import pytest
from tests.unit.stores.postgres.watched import Connection, Watched

from rota.jobs import Job
from rota.stores.postgres import cursor as cursor_module
from rota.stores.postgres import lease
from rota.stores.postgres.connections import Statements
from rota.stores.postgres.cursor import (
    CHECKED_EVERY,
    RESTART_AFTER,
    Cursor,
    Cursors,
    Horizon,
)
from rota.stores.postgres.lease import LeaseCall
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


class StandingStill(Horizon):
    """A horizon that is always pinned."""

    async def is_pinned(self, statements: Statements) -> bool:
        return statements is not None


class Leases:
    """A worker that leases by the cursor, at a time that the test sets."""

    def __init__(self, statements: Watched, horizon: Horizon | None = None) -> None:
        self.time = 0.0
        self.statements = statements
        horizon = horizon or Horizon(time=lambda: self.time)
        self.cursors = Cursors(horizon, time=lambda: self.time)
        self.from_start_count = 0
        self.fast_path = lease.FastPath()

    def call(self, limit: int, now: datetime = NOW, **fields: Any) -> LeaseCall:
        request = LeaseRequest(**{"worker": "w", "limit": limit, "lease_for": MINUTE, **fields})
        return LeaseCall(self.statements, request, now, self.fast_path)

    async def lease(self, limit: int, now: datetime = NOW, **fields: Any) -> list[Job]:
        return await self.cursors.lease(self.call(limit, now, **fields))

    async def count_pages(self, limit: int) -> int:
        """How many pages a lease of that many jobs reads."""
        self.statements.page_count, self.statements.is_counting = 0, True
        assert len(await self.lease(limit)) == limit
        self.statements.is_counting = False
        return self.statements.page_count

    def go_to_start(self) -> None:
        """Let enough time pass for the next lease to start at the beginning."""
        self.time += RESTART_AFTER


@pytest.fixture
def leases(statements: Watched, monkeypatch: pytest.MonkeyPatch) -> Leases:
    return count_from_start(Leases(statements, StandingStill()), monkeypatch)


def count_from_start(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> Leases:
    take = lease.lease_from_start

    async def counted(call: LeaseCall) -> list[Job]:
        leases.from_start_count += 1
        return await take(call)

    monkeypatch.setattr(lease, "lease_from_start", counted)
    return leases


async def churn(other: Connection, count: int) -> None:
    """Insert and complete this many jobs of the default queue."""
    await other.execute(
        "INSERT INTO jobs (id, due_at, created_at, updated_at, last_token, priority,"
        " attempt_count, loss_count, is_due, is_awaited, status, tenant, queue, body)"
        " SELECT gen_random_uuid(), at, at, at, 0, 5, 0, 0, true, false, 'READY', 'default',"
        " 'default', '{}' FROM (SELECT '2025-01-01Z'::timestamptz + n * interval '1 ms' AS at"
        " FROM generate_series(1, $1::integer) AS n) AS instants",
        count,
    )
    await other.execute("UPDATE jobs SET is_due = NULL, status = 'COMPLETED' WHERE is_due")


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


def waiting(count: int, **fields: Any) -> list[Job]:
    """Jobs of the lane that comes and goes, younger than all of those."""
    common = {"tenant": "default", "queue": "default", "priority": 5, "created_at": NOW}
    return [a_job(**{**common, **fields}) for _ in range(count)]


async def lease_in_turn(leases: Leases, count: int, **fields: Any) -> str:
    """The tenants of this many jobs, leased one by one."""
    tenants = ""
    for _ in range(count):
        (job,) = await leases.lease(1, after_tenant=tenants[-1:], **fields)
        tenants += job.tenant
    return tenants


@pytest.mark.usefixtures("reader")
async def test_the_pages_a_lease_reads_do_not_grow_with_dead_rows(
    store: PostgresStore, other: Connection, leases: Leases
) -> None:
    from_start, by_cursor = [], []
    for gone_count in (1_000, 20_000):
        await churn(other, gone_count)
        await store.insert(waiting(30), NOW)
        leases.go_to_start()
        from_start.append(await leases.count_pages(10))
        by_cursor.append(await leases.count_pages(10))
    assert by_cursor[1] <= 1.5 * by_cursor[0]
    assert by_cursor[1] < from_start[1] / 5
    assert leases.from_start_count == 2


async def test_leases_use_the_cursor_while_the_first_jobs_lie_behind_many_dead_entries(
    store: PostgresStore, other: Connection, statements: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = count_from_start(Leases(statements), monkeypatch)
    await churn(other, 10_000)
    jobs = waiting(20)
    await store.insert(jobs, NOW)
    leased = await leases.lease(2)
    leases.time += CHECKED_EVERY
    async with statements.counting_on():
        leased += await leases.lease(2)  # measured at the beginning
    for _ in range(3):  # the cursor laid there, and continued twice
        leased += await leases.lease(2)
    assert leases.from_start_count == 3
    await other.execute("VACUUM (INDEX_CLEANUP ON) jobs")
    leases.go_to_start()
    async with statements.counting_on():
        leased += await leases.lease(2)  # measured again
    for _ in range(2):
        leased += await leases.lease(2)
    assert leases.from_start_count == 6
    assert ids(leased) == ids(jobs[:16])


@pytest.mark.usefixtures("reader")
async def test_the_next_due_time_is_found_on_few_pages(
    store: PostgresStore, other: Connection, leases: Leases
) -> None:
    await churn(other, 10_000)
    await other.execute("UPDATE jobs SET is_due = false")  # ... were due once, and are no more
    await other.execute("UPDATE jobs SET is_due = NULL")
    await store.insert(waiting(1), NOW)
    await leases.lease(5)
    leases.statements.is_counting = True
    again_at = await leases.cursors.next_due_at(leases.statements, NOW, None, None)
    assert again_at == NOW + timedelta(seconds=RESTART_AFTER)
    assert 0 < leases.statements.page_count < 20


async def test_a_worker_asks_again_when_the_next_job_is_due_or_a_lease_starts_at_the_beginning(
    store: PostgresStore, leases: Leases
) -> None:
    async def ask() -> datetime | None:
        return await leases.cursors.next_due_at(leases.statements, NOW, None, None)

    assert await ask() is None
    await store.insert([*waiting(1), *waiting(1, due_at=NOW + SECOND / 4)], NOW)
    await leases.lease(5)
    assert await ask() == NOW + SECOND / 4
    leases.time += RESTART_AFTER * 7 / 8
    assert await ask() == NOW + timedelta(seconds=RESTART_AFTER / 8)
    leases.time += RESTART_AFTER
    assert await ask() is None


async def test_where_the_horizon_moves_every_lease_begins_at_the_beginning(
    store: PostgresStore, statements: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = count_from_start(Leases(statements, Horizon(checked_every=0)), monkeypatch)
    jobs = waiting(4)
    await store.insert(jobs, NOW)
    assert ids([*await leases.lease(2), *await leases.lease(2)]) == ids(jobs)
    assert leases.from_start_count == 2


async def test_jobs_before_the_cursor_are_leased_when_a_lease_starts_at_the_beginning(
    store: PostgresStore, leases: Leases
) -> None:
    before, after = waiting(1, created_at=NOW - MINUTE), waiting(4)
    await store.insert(after, NOW)
    assert ids(await leases.lease(2)) == ids(after[:2])
    await store.insert(before, NOW)
    assert ids(await leases.lease(1)) == ids(after[2:3])
    leases.go_to_start()
    assert ids(await leases.lease(9)) == ids([*before, *after[3:]])
    assert leases.from_start_count == 2


async def test_many_jobs_before_the_cursor_are_leased_one_batch_after_the_other(
    store: PostgresStore, leases: Leases
) -> None:
    """Going back to the beginning means to go on from there, and not to look once."""
    await store.insert(waiting(3), NOW)
    await leases.lease(2)
    before = waiting(20, created_at=NOW - MINUTE)
    await store.insert(before, NOW)
    leases.go_to_start()
    leased = [job for _ in range(4) for job in await leases.lease(5)]
    assert ids(leased) == ids(before)
    assert leases.from_start_count == 2


def take_slowly(monkeypatch: pytest.MonkeyPatch, leases: Leases, seconds: float) -> None:
    """Every lease takes so long from now on."""
    take = lease.lease_from_start

    async def take_so_long(call: LeaseCall) -> list[Job]:
        leases.time += seconds
        return await take(call)

    monkeypatch.setattr(lease, "lease_from_start", take_so_long)


async def test_leases_that_cost_much_seldom_start_at_the_beginning(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert(waiting(9), NOW)
    take_slowly(monkeypatch, leases, 3.0)
    begun_at = []
    for _ in range(9):
        was = leases.from_start_count
        now = leases.time
        await leases.lease(1)
        if leases.from_start_count > was:
            begun_at.append(now)
        leases.time += 10.0
    assert begun_at == [0.0, 33.0, 66.0]


async def test_after_the_cursor_tenants_take_turns_and_have_what_others_leave_over(
    store: PostgresStore, leases: Leases
) -> None:
    jobs = {tenant: waiting(8, tenant=tenant) for tenant in "abc"}
    await store.insert([*jobs["a"], *jobs["b"][:2], *jobs["c"][:1]], NOW)
    assert ids(await leases.lease(3)) == [jobs[tenant][0].id for tenant in "abc"]
    leased = await leases.lease(6, after_tenant="a")
    assert ids(leased) == ids([jobs["b"][1], *jobs["a"][1:6]])
    assert ids(await leases.lease(6)) == ids(jobs["a"][6:])
    assert leases.from_start_count == 1


async def test_after_the_cursor_a_higher_priority_comes_first(
    store: PostgresStore, leases: Leases
) -> None:
    jobs = {
        (queue, priority): waiting(3, queue=queue, priority=priority)
        for queue in "xy"
        for priority in (1, 9)
    }
    await store.insert([job for some in jobs.values() for job in some[:1]], NOW)
    assert len(await leases.lease(9)) == 4
    await store.insert([job for some in jobs.values() for job in some[1:]], NOW)
    leased = [job.priority for _ in range(3) for job in await leases.lease(3)]
    assert leased == [9] * 4 + [1] * 4
    assert leases.from_start_count == 1


async def test_each_choice_of_queues_has_a_cursor_of_its_own(
    store: PostgresStore, leases: Leases
) -> None:
    """Leases at the beginning for one queue do not delay those for another."""
    await store.insert([*waiting(2, queue="x"), *waiting(2, queue="y")], NOW)
    assert len(await leases.lease(1, queues=("x",))) == 1
    assert [job.queue for job in await leases.lease(9, queues=("y",))] == ["y", "y"]
    assert leases.from_start_count == 2
    assert [job.queue for job in await leases.lease(9, queues=("x",))] == ["x"]
    assert leases.from_start_count == 2


async def test_with_very_many_partitions_every_lease_starts_at_the_beginning(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_module, "MOST_PLACES", 3)
    await store.insert([job for tenant in "abcd" for job in waiting(2, tenant=tenant)], NOW)
    assert len(await leases.lease(4)) == 4
    assert len(await leases.lease(4)) == 4
    assert leases.from_start_count == 2


async def test_where_there_are_too_many_partitions_none_is_favoured(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_module, "MOST_PLACES", 3)
    await store.insert([job for tenant in "abcd" for job in waiting(2, tenant=tenant)], NOW)
    assert await lease_in_turn(leases, 8) == "abcdabcd"


@pytest.mark.parametrize("chosen", [{}, {"queues": ("default",)}, {"tenants": tuple("abcde")}])
async def test_a_tenant_that_the_cursor_has_not_met_has_its_turn_like_all_others(
    store: PostgresStore, leases: Leases, chosen: dict[str, Any]
) -> None:
    """Where places become free one at a time, jobs are leased one at a time."""
    await store.insert([job for tenant in "abcde" for job in waiting(3, tenant=tenant)], NOW)
    assert await lease_in_turn(leases, 15, **chosen) == "abcde" * 3
    assert leases.from_start_count == 1


@pytest.mark.parametrize("queues", [None, ["default"]])
async def test_partitions_are_found_on_few_pages(
    store: PostgresStore, other: Connection, leases: Leases, queues: list[str] | None
) -> None:
    assert store is not None
    await other.execute(
        "INSERT INTO jobs (id, due_at, created_at, updated_at, last_token, priority,"
        " attempt_count, loss_count, is_due, is_awaited, status, tenant, queue, body)"
        " SELECT gen_random_uuid(), at, at, at, 0, 1 + n % 2, 0, 0, true, false, 'READY',"
        " 't' || n % 5, CASE WHEN n % 3 > 0 THEN 'default' ELSE 'rare' END, '{}' FROM (SELECT n,"
        " '2025-01-01Z'::timestamptz + n * interval '1 ms' AS at FROM generate_series(1, 9000)"
        " AS n) AS instants"
    )
    leases.statements.is_counting = True
    cursor = Cursor()
    await cursor.learn(leases.call(1, queues=queues))
    assert len(cursor.reached) == (10 if queues else 20)
    first = "SELECT id::text FROM jobs WHERE (tenant, queue, priority) = ($1, $2, $3)"
    for place, (_, job_id) in cursor.reached.items():
        assert job_id == await other.fetchval(f"{first} ORDER BY created_at, id", *place)
    assert leases.statements.page_count < 40 * len(cursor.reached)


async def test_at_the_beginning_the_cursor_finds_new_jobs_of_every_partition(
    store: PostgresStore, leases: Leases
) -> None:
    jobs = [job for tenant in "abcde" for job in waiting(9, tenant=tenant)]
    await store.insert(jobs, NOW)
    await leases.lease(10)
    retried = [job for tenant in "abcde" for job in waiting(1, tenant=tenant, priority=9)]
    again = [job for it in "abcde" for job in waiting(1, tenant=it, created_at=NOW - MINUTE)]
    await store.insert([*retried, *again], NOW)
    leases.go_to_start()
    leased: list[str] = []
    for tenant in "-abcd" * 2:
        leased += ids(await leases.lease(1, after_tenant=tenant))
    assert leased == ids([*retried, *again])
    assert leases.from_start_count == 2


async def test_a_lease_starts_at_the_beginning_every_minute_at_least(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease may also take long because the event loop was blocked."""
    await store.insert(waiting(3), NOW)
    take_slowly(monkeypatch, leases, 600.0)
    await leases.lease(1)
    leases.time += 60.0
    await leases.lease(1)
    assert leases.from_start_count == 2


async def test_a_round_that_fails_keeps_back_nothing_of_those_before(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise jobs would be leased of which no worker knows."""
    jobs = {tenant: waiting(8, tenant=tenant) for tenant in "ab"}
    await store.insert([*jobs["a"], *jobs["b"][:2]], NOW)
    await leases.lease(2)
    fetch, asked = leases.statements.fetch, 0

    async def fail_the_third_time(statement: str, *arguments: Any) -> list[Any]:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise asyncpg.DeadlockDetectedError(statement)
        return await fetch(statement, *arguments)

    monkeypatch.setattr(leases.statements, "fetch", fail_the_third_time)
    assert ids(await leases.lease(6)) == ids([*jobs["a"][1:4], jobs["b"][1]])
    assert asked == 3
    asked = 2
    with pytest.raises(asyncpg.DeadlockDetectedError):
        await leases.lease(6)


async def test_a_lease_while_another_is_at_the_beginning_continues_by_the_cursor(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers of a service share a cursor: they must not all walk past everything at once."""
    await store.insert(waiting(9), NOW)
    await leases.lease(1)
    leases.go_to_start()
    take = lease.lease_from_start
    meanwhile: list[Job] = []

    async def take_while_others_ask(call: LeaseCall) -> list[Job]:
        meanwhile.extend(await leases.lease(2))
        return await take(call)

    monkeypatch.setattr(lease, "lease_from_start", take_while_others_ask)
    assert len(await leases.lease(2)) == 2
    assert len(meanwhile) == 2
    assert leases.from_start_count == 2


async def test_the_oldest_cursor_goes_when_there_are_very_many(
    store: PostgresStore, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor_module, "MOST_CURSORS", 2)
    await store.insert(waiting(12), NOW)
    for number in range(9):
        await leases.lease(1, queues=("default", f"q{number}"))
    await leases.lease(1, queues=("default", "q7"))
    assert leases.from_start_count == 9
    assert len(leases.cursors._cursors) == 2


async def test_an_unreadable_row_after_the_cursor_is_set_aside(
    store: PostgresStore, leases: Leases, other: Connection
) -> None:
    jobs = waiting(4)
    await store.insert(jobs, NOW)
    await leases.lease(1)
    await other.execute("UPDATE jobs SET body = '{' WHERE id = $1", jobs[1].id)
    assert ids(await leases.lease(9)) == ids(jobs[2:])
    assert leases.from_start_count == 1
    aside = await other.fetch("SELECT id::text FROM jobs WHERE set_aside IS NOT NULL")
    assert [row[0] for row in aside] == [jobs[1].id]


@pytest.mark.parametrize("seed", range(3))
async def test_each_job_is_leased_once_and_none_is_forgotten_in_any_order(
    store: PostgresStore, leases: Leases, seed: int
) -> None:
    random = Random(seed)
    added, leased = [], []
    for step in range(40):
        now = NOW + step * SECOND
        jobs = [
            job
            for _ in range(random.randrange(5))
            for job in waiting(
                1,
                tenant=random.choice("ab"),
                queue=random.choice("xy"),
                priority=random.choice([1, 5]),
                created_at=now - random.choice([0, 0, 0, 30]) * SECOND,
                due_at=now + random.choice([-30, 0, 2]) * SECOND,
            )
        ]
        await store.insert(jobs, now)
        added += ids(jobs)
        leased += ids(await leases.lease(random.choice([1, 3, 10]), now))
        leases.time += random.choice([0.1, 0.5])
    assert 0 < leases.from_start_count < 40
    leases.go_to_start()
    leased += ids(await leases.lease(1_000, NOW + MINUTE))
    assert sorted(leased) == sorted(added)
