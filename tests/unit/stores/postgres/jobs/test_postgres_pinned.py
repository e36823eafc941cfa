"""A transaction elsewhere keeps the server from clearing away: leases cost what they did."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeAlias

import asyncpg
import pytest

from rota.jobs import Job
from rota.stores.jobs import LeaseRequest
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.database import session_settings
from rota.stores.postgres.jobs import leasing
from rota.stores.postgres.jobs.connections.statements import Statements
from rota.stores.postgres.jobs.pinned import hand as hand_module
from rota.stores.postgres.jobs.pinned import horizon as horizon_module
from rota.stores.postgres.jobs.pinned.hand import FRONT_AGAIN_AFTER, Hands
from rota.stores.postgres.jobs.pinned.horizon import (
    FEWEST_BEHIND,
    LONG_FOR,
    MANY_BEHIND,
    Hold,
    Horizon,
    describe_hold,
    read_hold,
)
from rota.stores.postgres.queries import placed
from rota.stores.postgres.schema.inspection import inspect_database
from rota.stores.postgres.store import PostgresStore
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


class Watched:
    """Carries out statements, and counts the pages that they read; explained, then taken back."""

    is_foreign = False

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self.page_count = 0
        self.is_counting = False

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        text = placed(statement, self._schema)
        if self.is_counting:
            await self._explain(text, arguments)
        return await self._connection.fetch(text, *arguments)

    async def _explain(self, text: str, arguments: Sequence[Any]) -> None:
        asked = f"EXPLAIN (FORMAT JSON, ANALYZE, BUFFERS) {text}"
        await self._connection.execute("BEGIN")
        (plan,) = json.loads(await self._connection.fetchval(asked, *arguments))
        await self._connection.execute("ROLLBACK")
        self.page_count += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]

    def transaction(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()


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
async def statements(
    store: PostgresStore, postgres_settings: PostgresSettings
) -> AsyncIterator[Watched]:
    """As those of the store, on a connection with its settings."""
    assert store is not None
    connection = await asyncpg.connect(
        postgres_settings.url, server_settings=session_settings(postgres_settings)
    )
    yield Watched(connection, postgres_settings.schema)
    connection.terminate()


@pytest.fixture
def line(statements: Watched) -> Line:
    return Line(statements, StandingStill())


@pytest.fixture
async def reader(postgres_settings: PostgresSettings) -> AsyncIterator[Connection]:
    """Somebody who reads for long, and needs everything as it was at the beginning."""
    connection = await asyncpg.connect(postgres_settings.url)
    await connection.execute("SET application_name = 'a long report'")
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.execute("SELECT count(*) FROM pg_class")
    yield connection
    connection.terminate()


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


async def test_a_horizon_that_stands_still_is_pinned_until_it_moves(
    statements: Watched, reader: Connection, other: Connection
) -> None:
    horizon = Horizon(looked_at_every=0, fewest_behind=3)
    for _ in range(5):
        await other.execute("CREATE TEMPORARY TABLE more (); DROP TABLE more")
    assert [await horizon.is_pinned(statements) for _ in range(4)] == [False, False, True, True]
    hold = await read_hold(statements)
    assert hold is not None
    assert hold.holder == (
        f"process {reader.get_server_pid()} of rota (a long report), idle in transaction"
    )
    assert hold.lasting_for is not None
    assert hold.lasting_for > timedelta(0)
    await reader.execute("ROLLBACK")
    assert not await horizon.is_pinned(statements)


async def test_a_horizon_is_not_pinned_by_what_comes_and_goes(
    statements: Watched, other: Connection
) -> None:
    horizon = Horizon(looked_at_every=0, fewest_behind=0)
    seen = []
    for _ in range(4):
        async with other.transaction(isolation="repeatable_read"):
            await other.execute("CREATE TEMPORARY TABLE more (); DROP TABLE more")
            seen.append(await horizon.is_pinned(statements))
    assert seen == [False] * 4


async def test_while_little_has_happened_since_a_horizon_is_not_pinned(
    statements: Watched, reader: Connection
) -> None:
    assert reader.is_in_transaction()
    horizon = Horizon(looked_at_every=0)
    assert [await horizon.is_pinned(statements) for _ in range(4)] == [False] * 4


async def test_the_horizon_is_looked_at_once_in_a_while(statements: Watched) -> None:
    time = 100.0
    looks: list[float] = []

    class Counting(Watched):
        async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
            looks.append(time)
            return await super().fetch(statement, *arguments)

    counting = Counting(statements._connection, "rota")
    horizon = Horizon(looked_at_every=5, time=lambda: time)
    for _ in range(50):
        await horizon.is_pinned(counting)
        time += 0.25
    assert looks == [105.0, 110.0]


async def test_what_may_not_be_looked_at_is_taken_for_movable(statements: Watched) -> None:
    class Forbidden(Watched):
        async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
            raise asyncpg.InsufficientPrivilegeError(statement, *arguments)

    horizon = Horizon(looked_at_every=0, fewest_behind=0)
    forbidden = Forbidden(statements._connection, "rota")
    assert [await horizon.is_pinned(forbidden) for _ in range(3)] == [False] * 3


@pytest.mark.parametrize(
    ("behind_count", "lasting_for", "told"),
    [
        (FEWEST_BEHIND, LONG_FOR, "x, for 5 minutes and for 100 transactions"),
        (FEWEST_BEHIND - 1, LONG_FOR, None),
        (MANY_BEHIND, LONG_FOR - SECOND, None),
        (MANY_BEHIND, None, "x, for 100000 transactions"),
        (MANY_BEHIND - 1, None, None),
    ],
)
def test_what_lasts_for_long_is_described(
    behind_count: int, lasting_for: timedelta | None, told: str | None
) -> None:
    assert describe_hold(Hold(behind_count, "1", "x", lasting_for)) == told
    assert describe_hold(None) is None


async def test_an_inspection_names_who_pins_the_horizon(
    store: PostgresStore,
    postgres_settings: PostgresSettings,
    reader: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await inspect_database(postgres_settings)).pinned_by is None
    monkeypatch.setattr(horizon_module, "LONG_FOR", timedelta(0))
    monkeypatch.setattr(horizon_module, "FEWEST_BEHIND", 1)
    await store.insert([a_job()], NOW)
    pinned_by = (await inspect_database(postgres_settings)).pinned_by
    assert pinned_by is not None
    assert pinned_by.startswith(f"process {reader.get_server_pid()} of rota (a long report)")
    await reader.execute("ROLLBACK")
    assert (await inspect_database(postgres_settings)).pinned_by is None


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


async def test_a_hand_that_costs_much_at_the_front_is_seldom_there(
    store: PostgresStore, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.insert(waiting(9), NOW)
    take = leasing.lease

    async def take_slowly(*arguments: Any) -> list[Job]:
        line.time += 3.0
        return await take(*arguments)

    monkeypatch.setattr(leasing, "lease", take_slowly)
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
