"""A transaction elsewhere keeps the server from clearing away: leases cost what they did."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import asyncpg
import pytest
from tests.unit.stores.postgres.jobs.pinned.watched import Connection, Watched

from rota.jobs import Job
from rota.stores.postgres.jobs import leasing
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.pinned import hand as hand_module
from rota.stores.postgres.jobs.pinned.hand import FRONT_AGAIN_AFTER, Hands
from rota.stores.postgres.jobs.pinned.horizon import Horizon
from rota.stores.postgres.jobs.pinned.queries import QUERIES
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


class StandingStill(Horizon):
    """A horizon that never moves, without anything that keeps it."""

    async def is_pinned(self, statements: Statements) -> bool:
        return statements is not None


class Line:
    """A worker that leases by hand, at a time that the test says."""

    def __init__(self, statements: Watched, horizon: Horizon) -> None:
        self.time = 0.0
        self.statements = statements
        self.hands = Hands(horizon, time=lambda: self.time)
        self.from_front_count = 0
        self._only_lane = leasing.OnlyLane()

    async def lease(self, limit: int, now: datetime = NOW, **fields: Any) -> list[Job]:
        request = LeaseRequest(**{"worker": "w", "limit": limit, "lease_for": MINUTE, **fields})

        async def from_front() -> list[Job]:
            self.from_front_count += 1
            return await leasing.lease(self.statements, request, now, self._only_lane)

        return await self.hands.lease(self.statements, request, now, from_front)

    async def count_pages(self, limit: int) -> int:
        """How many pages a lease reads of so many jobs that are there."""
        self.statements.page_count, self.statements.is_counting = 0, True
        assert len(await self.lease(limit)) == limit
        self.statements.is_counting = False
        return self.statements.page_count

    def go_to_front(self) -> None:
        """Let so much time pass that the hand goes back."""
        self.time += FRONT_AGAIN_AFTER


@pytest.fixture
def line(statements: Watched) -> Line:
    return Line(statements, StandingStill())


async def churn(other: Connection, count: int) -> None:
    """So many jobs of the default lane come and go."""
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


async def lease_in_turn(line: Line, count: int, **fields: Any) -> str:
    """The tenants of so many jobs that are leased one by one."""
    tenants = ""
    for _ in range(count):
        (job,) = await line.lease(1, after_tenant=tenants[-1:], **fields)
        tenants += job.tenant
    return tenants


@pytest.mark.usefixtures("reader")
async def test_a_lease_reads_as_many_pages_however_much_cannot_be_cleared_away(
    store: PostgresStore, other: Connection, line: Line
) -> None:
    at_front, by_hand = [], []
    for gone_count in (1_000, 20_000):
        await churn(other, gone_count)
        await store.insert(waiting(30), NOW)
        line.go_to_front()
        at_front.append(await line.count_pages(10))
        by_hand.append(await line.count_pages(10))
    assert by_hand[1] <= 1.5 * by_hand[0]
    assert by_hand[1] < at_front[1] / 5
    assert line.from_front_count == 2


@pytest.mark.usefixtures("reader")
async def test_when_to_ask_again_is_found_on_few_pages_however_much_cannot_be_cleared_away(
    store: PostgresStore, other: Connection, line: Line
) -> None:
    await churn(other, 10_000)
    await other.execute("UPDATE jobs SET is_due = false")  # ... were due once, and are no more
    await other.execute("UPDATE jobs SET is_due = NULL")
    await store.insert(waiting(1), NOW)
    await line.lease(5)
    line.statements.is_counting = True
    again_at = await line.hands.next_due_at(line.statements, NOW, None, None)
    assert again_at == NOW + timedelta(seconds=FRONT_AGAIN_AFTER)
    assert 0 < line.statements.page_count < 20


async def test_a_worker_asks_again_when_the_next_job_is_due_or_the_hand_is_back_at_the_front(
    store: PostgresStore, line: Line
) -> None:
    async def ask() -> datetime | None:
        return await line.hands.next_due_at(line.statements, NOW, None, None)

    assert await ask() is None
    await store.insert([*waiting(1), *waiting(1, due_at=NOW + SECOND / 4)], NOW)
    await line.lease(5)
    assert await ask() == NOW + SECOND / 4
    line.time += FRONT_AGAIN_AFTER * 7 / 8
    assert await ask() == NOW + timedelta(seconds=FRONT_AGAIN_AFTER / 8)
    line.time += FRONT_AGAIN_AFTER
    assert await ask() is None


async def test_where_the_horizon_moves_every_lease_begins_at_the_front(
    store: PostgresStore, statements: Watched
) -> None:
    line = Line(statements, Horizon(looked_at_every=0))
    jobs = waiting(4)
    await store.insert(jobs, NOW)
    assert ids([*await line.lease(2), *await line.lease(2)]) == ids(jobs)
    assert line.from_front_count == 2


async def test_what_joins_behind_the_hand_is_leased_when_it_is_back_at_the_front(
    store: PostgresStore, line: Line
) -> None:
    before, after = waiting(1, created_at=NOW - MINUTE), waiting(4)
    await store.insert(after, NOW)
    assert ids(await line.lease(2)) == ids(after[:2])
    await store.insert(before, NOW)
    assert ids(await line.lease(1)) == ids(after[2:3])
    line.go_to_front()
    assert ids(await line.lease(9)) == ids([*before, *after[3:]])
    assert line.from_front_count == 2


async def test_many_that_join_behind_the_hand_are_leased_one_batch_after_the_other(
    store: PostgresStore, line: Line
) -> None:
    """Going back to the front means to go on from there, and not to look once."""
    await store.insert(waiting(3), NOW)
    await line.lease(2)
    before = waiting(20, created_at=NOW - MINUTE)
    await store.insert(before, NOW)
    line.go_to_front()
    leased = [job for _ in range(4) for job in await line.lease(5)]
    assert ids(leased) == ids(before)
    assert line.from_front_count == 2


def take_slowly(monkeypatch: pytest.MonkeyPatch, line: Line, seconds: float) -> None:
    """Every lease takes so long from now on."""
    take = leasing.lease

    async def take_so_long(*arguments: Any) -> list[Job]:
        line.time += seconds
        return await take(*arguments)

    monkeypatch.setattr(leasing, "lease", take_so_long)


async def test_a_hand_that_costs_much_at_the_front_is_seldom_there(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert(waiting(9), NOW)
    take_slowly(monkeypatch, line, 3.0)
    begun_at = []
    for _ in range(9):
        was = line.from_front_count
        now = line.time
        await line.lease(1)
        if line.from_front_count > was:
            begun_at.append(now)
        line.time += 10.0
    assert begun_at == [0.0, 33.0, 66.0]


async def test_ahead_of_the_hand_tenants_take_turns_and_have_what_others_leave_over(
    store: PostgresStore, line: Line
) -> None:
    jobs = {tenant: waiting(8, tenant=tenant) for tenant in "abc"}
    await store.insert([*jobs["a"], *jobs["b"][:2], *jobs["c"][:1]], NOW)
    assert ids(await line.lease(3)) == [jobs[tenant][0].id for tenant in "abc"]
    leased = await line.lease(6, after_tenant="a")
    assert ids(leased) == ids([jobs["b"][1], *jobs["a"][1:6]])
    assert ids(await line.lease(6)) == ids(jobs["a"][6:])
    assert line.from_front_count == 1


async def test_ahead_of_the_hand_what_is_more_urgent_comes_first(
    store: PostgresStore, line: Line
) -> None:
    jobs = {
        (queue, priority): waiting(3, queue=queue, priority=priority)
        for queue in "xy"
        for priority in (1, 9)
    }
    await store.insert([job for some in jobs.values() for job in some[:1]], NOW)
    assert len(await line.lease(9)) == 4
    await store.insert([job for some in jobs.values() for job in some[1:]], NOW)
    leased = [job.priority for _ in range(3) for job in await line.lease(3)]
    assert leased == [9] * 4 + [1] * 4
    assert line.from_front_count == 1


async def test_those_who_want_other_queues_have_a_hand_of_their_own(
    store: PostgresStore, line: Line
) -> None:
    """Who is often at the front for one queue does not keep the other's hand from going back."""
    await store.insert([*waiting(2, queue="x"), *waiting(2, queue="y")], NOW)
    assert len(await line.lease(1, queues=("x",))) == 1
    assert [job.queue for job in await line.lease(9, queues=("y",))] == ["y", "y"]
    assert line.from_front_count == 2
    assert [job.queue for job in await line.lease(9, queues=("x",))] == ["x"]
    assert line.from_front_count == 2


async def test_with_very_many_lanes_the_hand_begins_at_the_front(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_module, "MOST_PLACES", 3)
    await store.insert([job for tenant in "abcd" for job in waiting(2, tenant=tenant)], NOW)
    assert len(await line.lease(4)) == 4
    assert len(await line.lease(4)) == 4
    assert line.from_front_count == 2


async def test_where_there_are_too_many_lanes_none_is_favoured(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_module, "MOST_PLACES", 3)
    await store.insert([job for tenant in "abcd" for job in waiting(2, tenant=tenant)], NOW)
    assert await lease_in_turn(line, 8) == "abcdabcd"


@pytest.mark.parametrize("chosen", [{}, {"queues": ("default",)}, {"tenants": tuple("abcde")}])
async def test_a_tenant_whom_the_hand_has_not_met_has_its_turn_like_all_others(
    store: PostgresStore, line: Line, chosen: dict[str, Any]
) -> None:
    """Where places become free one at a time, jobs are leased one at a time."""
    await store.insert([job for tenant in "abcde" for job in waiting(3, tenant=tenant)], NOW)
    assert await lease_in_turn(line, 15, **chosen) == "abcde" * 3
    assert line.from_front_count == 1


@pytest.mark.parametrize("queues", [None, ["default"]])
async def test_places_are_found_on_few_pages_however_many_jobs_are_there(
    store: PostgresStore, other: Connection, statements: Watched, queues: list[str] | None
) -> None:
    assert store is not None
    await other.execute(
        "INSERT INTO jobs (id, due_at, created_at, updated_at, last_token, priority,"
        " attempt_count, loss_count, is_due, is_awaited, status, tenant, queue, body)"
        " SELECT gen_random_uuid(), at, at, at, 0, n % 2, 0, 0, true, false, 'READY',"
        " 't' || n % 5, CASE WHEN n % 3 > 0 THEN 'default' ELSE 'rare' END, '{}' FROM (SELECT n,"
        " '2025-01-01Z'::timestamptz + n * interval '1 ms' AS at FROM generate_series(1, 9000)"
        " AS n) AS instants"
    )
    statements.is_counting = True
    rows = await statements.fetch(QUERIES.find_places, NOW, queues, None, 1_000)
    assert len({tuple(row[:3]) for row in rows}) == len(rows) == (10 if queues else 20)
    first = "SELECT id::text FROM jobs WHERE (queue, tenant, priority) = ($1, $2, $3)"
    for row in rows:
        assert row[4] == await other.fetchval(f"{first} ORDER BY created_at, id", *row[:3])
    assert statements.page_count < 15 * len(rows)


async def test_back_at_the_front_the_hand_finds_what_has_joined_in_every_lane(
    store: PostgresStore, line: Line
) -> None:
    jobs = [job for tenant in "abcde" for job in waiting(9, tenant=tenant)]
    await store.insert(jobs, NOW)
    await line.lease(10)
    retried = [job for tenant in "abcde" for job in waiting(1, tenant=tenant, priority=9)]
    again = [job for it in "abcde" for job in waiting(1, tenant=it, created_at=NOW - MINUTE)]
    await store.insert([*retried, *again], NOW)
    line.go_to_front()
    leased: list[str] = []
    for tenant in "-abcd" * 2:
        leased += ids(await line.lease(1, after_tenant=tenant))
    assert leased == ids([*retried, *again])
    assert line.from_front_count == 2


async def test_a_hand_is_not_away_from_the_front_for_longer_than_a_minute(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease may also take long because the event loop was blocked."""
    await store.insert(waiting(3), NOW)
    take_slowly(monkeypatch, line, 600.0)
    await line.lease(1)
    line.time += 60.0
    await line.lease(1)
    assert line.from_front_count == 2


async def test_a_round_that_fails_keeps_back_nothing_of_those_before(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise jobs would be leased of which no worker knows."""
    jobs = {tenant: waiting(8, tenant=tenant) for tenant in "ab"}
    await store.insert([*jobs["a"], *jobs["b"][:2]], NOW)
    await line.lease(2)
    fetch, asked = line.statements.fetch, 0

    async def fail_the_second_time(statement: str, *arguments: Any) -> list[Any]:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise asyncpg.DeadlockDetectedError(statement)
        return await fetch(statement, *arguments)

    monkeypatch.setattr(line.statements, "fetch", fail_the_second_time)
    assert ids(await line.lease(6)) == ids([*jobs["a"][1:4], jobs["b"][1]])
    assert asked == 2
    asked = 1
    with pytest.raises(asyncpg.DeadlockDetectedError):
        await line.lease(6)


async def test_who_asks_while_another_is_at_the_front_goes_on_by_hand(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers of a service share a hand: they must not all walk past everything at once."""
    await store.insert(waiting(9), NOW)
    await line.lease(1)
    line.go_to_front()
    take = leasing.lease
    meanwhile: list[Job] = []

    async def take_while_others_ask(*arguments: Any) -> list[Job]:
        meanwhile.extend(await line.lease(2))
        return await take(*arguments)

    monkeypatch.setattr(leasing, "lease", take_while_others_ask)
    assert len(await line.lease(2)) == 2
    assert len(meanwhile) == 2
    assert line.from_front_count == 2


async def test_the_oldest_hand_is_forgotten_when_there_are_very_many(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_module, "MOST_SCOPES", 2)
    await store.insert(waiting(12), NOW)
    for number in range(9):
        await line.lease(1, queues=("default", f"q{number}"))
    await line.lease(1, queues=("default", "q7"))
    assert line.from_front_count == 9
    assert len(line.hands._hands) == 2


async def test_a_row_ahead_of_the_hand_that_cannot_be_read_is_set_aside(
    store: PostgresStore, line: Line, other: Connection
) -> None:
    jobs = waiting(4)
    await store.insert(jobs, NOW)
    await line.lease(1)
    await other.execute("UPDATE jobs SET body = '{' WHERE id = $1", jobs[1].id)
    assert ids(await line.lease(9)) == ids(jobs[2:])
    assert line.from_front_count == 1
    aside = await other.fetch("SELECT id::text FROM jobs WHERE set_aside IS NOT NULL")
    assert [row[0] for row in aside] == [jobs[1].id]


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_comes_when_each_job_is_leased_once_and_none_is_forgotten(
    store: PostgresStore, line: Line, seed: int
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
        leased += ids(await line.lease(random.choice([1, 3, 10]), now))
        line.time += random.choice([0.1, 0.5])
    assert 0 < line.from_front_count < 40
    line.go_to_front()
    leased += ids(await line.lease(1_000, NOW + MINUTE))
    assert sorted(leased) == sorted(added)
