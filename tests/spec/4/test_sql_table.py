"""A table of the user's own on PostgreSQL."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any

import asyncpg
import pytest
from tests.unit.poller.polling import DAY, HOUR, MINUTE, NOW, SECOND, Stage

from rota.errors import InvalidInputError, StoreError, StoreUnavailableError
from rota.poller import JobUpdate
from rota.poller.sql import _STATEMENTS, SqlTableStore
from rota.testing import VirtualClock

COLUMNS = (
    "id int PRIMARY KEY, sleep_until timestamptz, interval text, repeat_until timestamptz,"
    " auto_remove boolean, note text"
)


class Table:
    """A table with a schema of its own, which is also the search path of the pool."""

    def __init__(self, pool: "asyncpg.Pool[Any]", schema: str) -> None:
        self.pool = pool
        self.name = f"{schema}.jobs"
        self._schema = schema

    async def create(self, columns: str = COLUMNS) -> None:
        await self.pool.execute(
            f"CREATE SCHEMA {self._schema}; CREATE TABLE {self.name} ({columns})"
        )

    async def insert(self, row_id: int = 1, **fields: Any) -> None:
        row = {"id": row_id, "sleep_until": NOW, **fields}
        names = ", ".join(f'"{name}"' for name in row)
        values = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        statement = f"INSERT INTO {self.name} ({names}) VALUES ({values})"  # noqa: S608 - the test's own
        await self.pool.execute(statement, *row.values())

    async def rows(self) -> list[dict[str, Any]]:
        found = await self.pool.fetch(f"SELECT * FROM {self.name} ORDER BY id")  # noqa: S608 - as above
        return [dict(row) for row in found]


@pytest.fixture
async def bare(postgres_database: str) -> AsyncIterator[Table]:
    """A table that is not created yet."""
    async with asyncpg.create_pool(postgres_database, min_size=1, max_size=4) as pool:
        yield Table(pool, f"test_{token_hex(6)}")


@pytest.fixture
async def table(bare: Table) -> Table:
    await bare.create()
    return bare


async def polled(store: SqlTableStore, duration: timedelta = SECOND) -> Stage:
    """A stage after a poller has polled the table for so long."""
    stage = Stage(store, VirtualClock(NOW))
    await stage.play(duration, idle_delay=SECOND, lock_duration=MINUTE)
    await stage.close()
    return stage


@pytest.mark.parametrize("sleep_until", [None, NOW + HOUR])
async def test_rows_that_do_not_sleep_or_sleep_longer_are_left_alone(
    table: Table, sleep_until: datetime | None
) -> None:
    await table.insert(sleep_until=sleep_until)
    before = await table.rows()
    assert (await polled(SqlTableStore(table.pool, table.name))).jobs == []
    assert await table.rows() == before


async def test_a_poller_gets_the_whole_row_and_writes_one_column(table: Table) -> None:
    fields: dict[str, Any] = {
        "interval": "0 * * * *",
        "repeat_until": NOW + DAY,
        "auto_remove": True,
        "note": "x",
    }
    await table.insert(**fields)
    (before,) = await table.rows()
    stage = await polled(SqlTableStore(table.pool, table.name))
    (job,) = stage.jobs
    assert (job.id, job.payload) == (1, before)
    found = (job.sleep_until, job.interval, job.repeat_until, job.auto_remove)
    assert found == (NOW, "0 * * * *", NOW + DAY, True)
    assert await table.rows() == [before | {"sleep_until": NOW + HOUR}]


async def test_a_condition_has_to_be_met_as_well(table: Table) -> None:
    for number in range(4):
        await table.insert(number, note="it's" if number % 2 else "$1")
    condition, values = "note = $1 AND id < $2 -- and no more", ["it's", 3]
    store = SqlTableStore(table.pool, table.name, condition, values)
    assert [job.id for job in (await polled(store)).jobs] == [1]


async def test_names_are_quoted(bare: Table) -> None:
    await bare.create('"Key" int UNIQUE, "a""b; DROP TABLE x" timestamptz, "$1" text, "{}" boolean')
    await bare.pool.execute(
        f"""INSERT INTO {bare.name} VALUES (7, $1, '@hourly', true)""",  # noqa: S608 - the test's own
        NOW,
    )
    store = SqlTableStore(
        bare.pool,
        bare.name,
        id_column="Key",
        sleep_until_column='a"b; DROP TABLE x',
        interval_column="$1",
        repeat_until_column=None,
        auto_remove_column="{}",
    )
    await store.create_index()
    (job,) = (await polled(store)).jobs
    assert (job.id, job.interval, job.auto_remove) == (7, "@hourly", True)
    found = await bare.pool.fetchrow(f"SELECT * FROM {bare.name}")  # noqa: S608 - the test's own
    assert found is not None
    assert found[1] == NOW + HOUR


async def test_a_date_is_enough_and_without_a_zone_it_is_in_utc(bare: Table) -> None:
    """Also if the column rounds: the lock is what the table has made of it."""
    await bare.create("id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at timestamp(0)")
    insert = f"INSERT INTO {bare.name} (at) VALUES ($1)"  # noqa: S608 - the test's own
    await bare.pool.execute(insert, NOW.replace(tzinfo=None))
    async with bare.pool.acquire() as connection:
        await connection.execute("SET TIME ZONE 'Asia/Kolkata'")
        store = SqlTableStore(connection, bare.name, sleep_until_column="at")
        at = NOW + timedelta(microseconds=123)
        job = await store.lock_next(at + MINUTE, at)
        assert job is not None
        assert job.sleep_until == NOW
        assert await store.lock_next(at + MINUTE, at) is None
        assert await store.update(job, JobUpdate(sleep_until=NOW + HOUR), at)
        assert not await store.update(job, JobUpdate(), at)
    (row,) = await bare.rows()
    assert row["at"] == (NOW + HOUR).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("definition", "options", "field", "remedy"),
    [
        ("id int", {"id_column": "key"}, "id_column", "name one of id"),
        ("id int, sleep_until timestamptz", {}, "id_column", "add a unique index"),
        ("id int PRIMARY KEY", {}, "sleep_until_column", "name one of id"),
        ("id int PRIMARY KEY, sleep_until date", {}, "sleep_until_column", "change its type"),
        (
            "id int PRIMARY KEY, sleep_until timestamptz NOT NULL",
            {},
            "sleep_until_column",
            "DROP NOT NULL",
        ),
        (COLUMNS, {"interval_column": "every"}, "interval_column", "or None"),
        (COLUMNS, {"interval_column": "auto_remove"}, "interval_column", "another"),
        (COLUMNS, {"interval_column": "id"}, "id_column", "another option"),
        (
            "id int PRIMARY KEY, sleep_until timestamptz, interval interval",
            {},
            "interval_column",
            "must be of the type text, and is interval",
        ),
        (COLUMNS, {"auto_remove_column": "note"}, "auto_remove_column", "boolean, and is text"),
    ],
)
async def test_a_column_that_does_not_fit_is_refused_with_its_name_and_a_remedy(
    bare: Table, definition: str, options: Any, field: str, remedy: str
) -> None:
    await bare.create(definition)
    with pytest.raises(InvalidInputError) as refusal:
        await SqlTableStore(bare.pool, bare.name, **options).lock_next(NOW + MINUTE, NOW)
    assert refusal.value.details["field"] == field
    assert repr(refusal.value.details["value"]) in str(refusal.value)
    assert remedy in str(refusal.value)


async def test_a_table_that_does_not_exist_is_refused(bare: Table) -> None:
    with pytest.raises(InvalidInputError, match=r"table 'nowhere' does not exist .* create it"):
        await SqlTableStore(bare.pool, "nowhere").lock_next(NOW + MINUTE, NOW)


async def test_a_connection_in_a_transaction_is_refused(table: Table) -> None:
    async with table.pool.acquire() as connection, connection.transaction():
        with pytest.raises(InvalidInputError, match="connection is in a transaction"):
            await SqlTableStore(connection, table.name).lock_next(NOW + MINUTE, NOW)


async def test_rows_that_others_have_locked_are_passed_over(table: Table) -> None:
    await table.insert(1)
    await table.insert(2)
    store = SqlTableStore(table.pool, table.name)
    async with table.pool.acquire() as connection, connection.transaction():
        await connection.execute(f"SELECT FROM {table.name} WHERE id = 1 FOR UPDATE")
        found = await asyncio.wait_for(store.lock_next(NOW + MINUTE, NOW), 60)
        assert found is not None
        assert found.id == 2
        assert await store.lock_next(NOW + MINUTE, NOW) is None
    found = await store.lock_next(NOW + MINUTE, NOW)
    assert found is not None
    assert found.id == 1


async def test_each_row_is_locked_once_by_many_at_the_same_time(table: Table) -> None:
    for number in range(20):
        await table.insert(number)
    stores = [SqlTableStore(table.pool, table.name) for _ in range(2)]
    turns = [stores[n % 2].lock_next(NOW + MINUTE, NOW) for n in range(30)]
    found = [job.id for job in await asyncio.gather(*turns) if job is not None]
    assert sorted(found) == list(range(20))


async def test_pollers_may_share_a_connection(table: Table) -> None:
    for number in range(10):
        await table.insert(number)
    async with table.pool.acquire() as connection:
        store = SqlTableStore(connection, table.name)
        jobs = await asyncio.gather(*(store.lock_next(NOW + MINUTE, NOW) for _ in range(10)))
    assert sorted(job.id for job in jobs if job is not None) == list(range(10))


@pytest.mark.parametrize("has_own_index", [True, False])
async def test_a_lock_reads_a_few_rows_by_the_index(table: Table, has_own_index: bool) -> None:
    """Our index, or that of a user on the column alone: the backlog is not read for a lock."""
    store = SqlTableStore(table.pool, table.name, "note = $1", ["n"])
    if has_own_index:
        await table.pool.execute(f"CREATE INDEX ON {table.name} (sleep_until)")
    else:
        assert await store.create_index() == await store.create_index() == "rota_jobs_sleep_until"
    await table.pool.execute(
        f"""INSERT INTO {table.name} (id, sleep_until, note)
        SELECT n, $1::timestamptz - n * interval '1 second', 'n' FROM generate_series(1, 20000) n""",  # noqa: S608, E501 - the test's own
        NOW,
    )
    await table.pool.execute(f"ANALYZE {table.name}")
    columns = await store._find_columns()
    statement = store._fill(
        _STATEMENTS.lock_next, columns, condition=store._condition, now="$2", until="$3"
    )
    async with table.pool.acquire() as connection:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        answer = await connection.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", "n", NOW, NOW + MINUTE
        )
    plan = json.dumps(json.loads(answer))
    assert "Seq Scan" not in plan
    assert "sleep_until" in plan
    read = [int(part.split(",")[0]) for part in plan.split('"Actual Rows": ')[1:]]
    assert max(read) < 100


async def test_a_condition_that_the_server_refuses_is_a_store_error(table: Table) -> None:
    with pytest.raises(StoreError, match=r"refuses: column .*nothing.* does not exist"):
        await SqlTableStore(table.pool, table.name, "nothing").lock_next(NOW + MINUTE, NOW)


async def test_a_lost_connection_is_an_error_of_the_store(postgres_database: str) -> None:
    connection = await asyncpg.connect(postgres_database)
    connection.terminate()
    with pytest.raises(StoreUnavailableError, match="is not available"):
        await SqlTableStore(connection, "any").lock_next(NOW + MINUTE, NOW)


@pytest.mark.process
def test_without_the_driver_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "from rota.errors import MissingExtraError\n"
        "try:\n    import rota.poller.sql\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "pip install 'rota[postgres]'" in found.stdout
