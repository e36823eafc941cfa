"""Leases among several programs, rows that cannot be read, and jobs whose time has come."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import pytest

from rota.clock.loop import in_flight
from rota.errors import DamagedJobError
from rota.jobs import Failed, Job, JobStatus, decide_complete, decide_outcome, order_jobs
from rota.stores.postgres import lease as leasing
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.connections import Session
from rota.stores.postgres.lease import LONG_AGO
from rota.stores.postgres.queries import QUERIES, placed
from rota.stores.postgres.store import CONNECTIONS_OF_A_WORKER, PostgresStore
from rota.stores.protocol import HeldLease, LeaseRequest
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def wanting(limit: int, **fields: Any) -> LeaseRequest:
    return LeaseRequest(**{"worker": "w", "limit": limit, "lease_for": MINUTE, **fields})


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


async def test_two_programs_share_a_backlog_without_meeting(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    places = [(tenant, queue) for tenant in "abc" for queue in "xyz"]
    waiting = [a_job(tenant=tenant, queue=queue) for tenant, queue in places for _ in range(40)]
    await store.insert(waiting, NOW)
    calls = [each.lease(wanting(30), NOW) for each in (store, elsewhere) * 6]
    leased = [job for batch in await asyncio.gather(*calls) for job in batch]
    assert len(leased) == len(set(ids(leased))) == 360
    assert await store.lease(wanting(30), NOW) == []


async def test_a_lease_skips_locked_jobs_without_waiting(
    store: PostgresStore, other: Connection
) -> None:
    waiting = [a_job() for _ in range(4)]
    await store.insert(waiting, NOW)
    async with other.transaction():
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", waiting[0].id)
        assert ids(await store.lease(wanting(2), NOW)) == ids(waiting[1:3])
    assert ids(await store.lease(wanting(9), NOW)) == ids([waiting[0], waiting[3]])


async def test_of_several_queues_others_make_up_for_what_another_is_about_to_take(
    store: PostgresStore, other: Connection
) -> None:
    first = [a_job(queue="a") for _ in range(3)]
    second = [a_job(queue="b") for _ in range(6)]
    await store.insert([*first, *second], NOW)
    async with other.transaction():
        await other.execute("SELECT FROM jobs WHERE queue = 'a' FOR UPDATE")
        assert ids(await store.lease(wanting(5), NOW)) == ids(second[:5])


async def test_over_several_queues_the_order_is_that_of_all(store: PostgresStore) -> None:
    waiting = [a_job(queue="abc"[n % 3], priority=n * 7 % 10 + 1) for n in range(30)]
    await store.insert(waiting, NOW)
    leased = [job for _ in range(6) for job in await store.lease(wanting(5), NOW)]
    assert ids(leased) == ids(order_jobs(waiting))


async def test_chosen_tenants_take_turns_too(store: PostgresStore) -> None:
    await store.insert([a_job(tenant=name) for name in "abcd" for _ in range(9)], NOW)
    chosen = wanting(9, tenants=["d", "a", "c", "c"], after_tenant="a")
    leased = await store.lease(chosen, NOW)
    assert [job.tenant for job in leased] == ["c"] * 3 + ["d"] * 3 + ["a"] * 3


async def test_a_name_of_any_characters_has_its_turn(store: PostgresStore) -> None:
    names = ["\U0010fffd", "~", "ä", "Z", "a", "A-1"]
    await store.insert([a_job(tenant=name) for name in names], NOW)
    leased = [(await store.lease(wanting(1, after_tenant=last), NOW))[0] for last in ["", *"ZZ"]]
    assert [job.tenant for job in leased] == ["A-1", "a", "~"]
    rest = await store.lease(wanting(9, after_tenant="ä"), NOW)
    assert [job.tenant for job in rest] == ["\U0010fffd", "Z", "ä"]


async def test_jobs_join_the_ready_set_those_due_longest_first(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More become due than one lease marks as due: the others follow."""
    monkeypatch.setattr(leasing, "MARKED_AT_ONCE", 3)
    later = [a_job(due_at=NOW + n * MINUTE, priority=n + 1) for n in range(1, 8)]
    await store.insert(later, NOW)
    leased = [await store.lease(wanting(2), NOW + 60 * MINUTE) for _ in range(4)]
    assert [ids(batch) for batch in leased] == [
        ids([later[2], later[1]]),
        ids([later[5], later[4]]),
        ids([later[6], later[3]]),
        ids([later[0]]),
    ]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that are asked, without those that only tell others."""
    statements: list[str] = []
    fetch = Session.fetch

    async def spied(session: Session, statement: str, *arguments: Any) -> Any:
        if "pg_notify" not in statement:
            statements.append(statement)
        return await fetch(session, statement, *arguments)

    monkeypatch.setattr(Session, "fetch", spied)
    return statements


async def test_where_there_is_one_partition_a_lease_is_one_statement(
    store: PostgresStore, asked: list[str]
) -> None:
    others = [a_job(queue="x"), a_job(queue="x", due_at=NOW + MINUTE)]
    await store.insert([a_job(priority=p) for p in (1, 9, 5)], NOW)
    asked.clear()
    assert [job.priority for job in await store.lease(wanting(2), NOW)] == [9, 5]
    assert await store.lease(wanting(2, queues=["x"]), NOW) == []
    await store.insert(others, NOW)
    assert ids(await store.lease(wanting(5, queues=["x"]), NOW)) == [others[0].id]
    assert set(asked) - {QUERIES.insert_jobs} == {QUERIES.lease}
    assert asked.count(QUERIES.lease) == 3


async def test_where_there_are_several_partitions_the_fast_path_is_not_tried_again_at_once(
    store: PostgresStore, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leasing, "SKIPPED", 2)
    await store.insert([a_job(tenant=tenant) for tenant in "ab" for _ in range(4)], NOW)
    asked.clear()
    leased = [job for _ in range(4) for job in await store.lease(wanting(2), NOW)]
    assert len(set(ids(leased))) == 8
    in_full = [QUERIES.lease, QUERIES.lease_in_turns]
    assert asked == [*in_full, QUERIES.lease_in_turns, QUERIES.lease_in_turns, *in_full]


async def test_capacity_unused_by_some_tenants_goes_to_others(
    store: PostgresStore, asked: list[str]
) -> None:
    counts = {"a": 1, "b": 8, "c": 2}
    await store.insert([a_job(tenant=name) for name, n in counts.items() for _ in range(n)], NOW)
    asked.clear()
    leased = await store.lease(wanting(9), NOW)
    assert "".join(job.tenant for job in leased) == "abbbccbbb"
    assert asked[-3:] == [QUERIES.find_partitions, QUERIES.find_first, QUERIES.take_jobs]


async def test_a_lease_of_one_partition_marks_late_jobs_as_due_first(
    store: PostgresStore, asked: list[str]
) -> None:
    late = [a_job(due_at=NOW + MINUTE, priority=priority) for priority in (3, 8)]
    await store.insert([*late, a_job(priority=5)], NOW)
    asked.clear()
    leased = await store.lease(wanting(3), NOW + MINUTE)
    assert [job.priority for job in leased] == [8, 5, 3]
    assert asked == [QUERIES.lease, QUERIES.mark_due, QUERIES.lease]


async def test_late_jobs_are_leased_though_the_ready_set_is_empty(store: PostgresStore) -> None:
    await store.insert([a_job(due_at=NOW + MINUTE)], NOW)
    assert await store.lease(wanting(3), NOW) == []
    assert len(await store.lease(wanting(3), NOW + MINUTE)) == 1


async def test_where_tenants_are_chosen_the_fast_path_is_not_tried(
    store: PostgresStore, asked: list[str]
) -> None:
    await store.insert([a_job(tenant="a"), a_job(tenant="b"), a_job(due_at=NOW + MINUTE)], NOW)
    asked.clear()
    assert len(await store.lease(wanting(2, tenants=["a"]), NOW)) == 1
    assert QUERIES.lease not in asked


async def test_a_row_that_cannot_be_read_is_set_aside_with_its_bytes(
    store: PostgresStore, other: Connection
) -> None:
    broken, whole = a_job(), a_job()
    await store.insert([broken, whole], NOW)
    await other.execute("UPDATE jobs SET body = '{\"name' WHERE id = $1", broken.id)
    assert ids(await store.lease(wanting(9), NOW)) == [whole.id]
    assert await store.lease(wanting(9), NOW + 5 * MINUTE) == []
    assert ids(await store.find_expired(NOW + 5 * MINUTE, 9)) == [whole.id]
    row = await other.fetchrow("SELECT status, set_aside, body FROM jobs WHERE id = $1", broken.id)
    assert row is not None
    assert (row["status"], row["body"]) == ("DAMAGED", '{"name')
    assert "DecodeError" in row["set_aside"]
    with pytest.raises(DamagedJobError):
        await store.get("default", [broken.id])
    assert list(await store.get("default", [broken.id, whole.id])) == [whole.id]
    assert ids((await store.find("default")).items) == [whole.id]
    assert await store.count("default") == 1


async def test_a_repaired_row_comes_back(store: PostgresStore, other: Connection) -> None:
    job = a_job()
    await store.insert([job], NOW)
    body = await other.fetchval("SELECT body FROM jobs")
    await other.execute("UPDATE jobs SET body = 'x'")
    assert await store.lease(wanting(9), NOW) == []
    await other.execute(
        "UPDATE jobs SET body = $1, set_aside = NULL, status = 'READY', is_due = false", body
    )
    assert ids(await store.lease(wanting(9), NOW)) == [job.id]


async def test_a_lost_lease_of_a_row_that_cannot_be_read_holds_up_no_sweep(
    store: PostgresStore, other: Connection
) -> None:
    waiting = [a_job() for _ in range(3)]
    await store.insert(waiting, NOW)
    await store.lease(wanting(9), NOW)
    await other.execute("UPDATE jobs SET body = '[]' WHERE id = $1", waiting[0].id)
    expired = await store.find_expired(NOW + 5 * MINUTE, 1)
    assert ids(expired) == [waiting[1].id]
    (answer,) = await store.apply(
        [decide_outcome(expired[0], Failed("x"), NOW + 5 * MINUTE)], NOW + 5 * MINUTE
    )
    assert answer.job is not None
    assert answer.job.status is JobStatus.READY


async def test_a_keeper_whose_connection_was_lost_opens_another(
    store: PostgresStore, other: Connection
) -> None:
    await store.insert([a_job()], NOW)
    (job,) = await store.lease(wanting(1), NOW)
    keeper = store.make_keeper()
    held = [HeldLease(job.id, job.last_token)]

    def extend(minutes: int) -> list[bool]:
        return keeper.extend(held, NOW + minutes * MINUTE, NOW)

    assert await asyncio.to_thread(extend, 5) == [True]
    await other.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND application_name = 'rota'"
        " AND datname = current_database()"
    )
    assert await asyncio.to_thread(extend, 6) == [True]
    await asyncio.to_thread(keeper.close)
    assert await store.extend(held, NOW, NOW) == [True]


async def test_the_clock_of_the_store_is_the_servers(
    store: PostgresStore, other: Connection
) -> None:
    before = await other.fetchval("SELECT clock_timestamp()")
    told = await store.read_clock()
    assert before <= told <= await other.fetchval("SELECT clock_timestamp()")
    assert told.tzinfo is UTC


async def test_listening_prepares_connections_and_leases_nothing(
    postgres_settings: PostgresSettings,
) -> None:
    async with await PostgresStore.open(postgres_settings) as store:
        job = a_job(due_at=LONG_AGO, created_at=LONG_AGO, updated_at=LONG_AGO)
        await store.insert([job], NOW)
        async with store.listen():
            await in_flight().landed()
            idle = store._database._idle
            assert len(idle) == CONNECTIONS_OF_A_WORKER
            for connection in idle:
                rows = await connection.fetch("SELECT statement FROM pg_prepared_statements")
                known = [row[0] for row in rows]
                assert placed(QUERIES.lease, postgres_settings.schema) in known
                assert placed(QUERIES.lease_in_turns, postgres_settings.schema) in known
                assert placed(QUERIES.complete_jobs, postgres_settings.schema) in known
        assert await store.get("default", [job.id]) == {job.id: job}


async def test_a_leased_job_is_due_when_it_was_whether_that_is_its_creation_or_not(
    store: PostgresStore,
) -> None:
    hour_ago = NOW - timedelta(hours=1)
    made = {"created_at": hour_ago, "updated_at": hour_ago}
    waiting = [a_job(**made, due_at=hour_ago), a_job(**made, due_at=NOW - MINUTE)]
    await store.insert(waiting, NOW)
    leased = await store.lease(wanting(9), NOW)
    assert {job.id: (job.created_at, job.due_at) for job in leased} == {
        job.id: (job.created_at, job.due_at) for job in waiting
    }


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_completion_writes_when_its_job_was_due_although_that_was_changed_meanwhile(
    store: PostgresStore, other: Connection, *, is_alone: bool
) -> None:
    hour_ago = NOW - timedelta(hours=1)
    made = {"created_at": hour_ago, "updated_at": hour_ago}
    waiting = [a_job(**made, due_at=hour_ago)]
    waiting += [] if is_alone else [a_job(**made, due_at=NOW - MINUTE)]
    await store.insert(waiting, NOW)
    changes = [decide_complete(job, NOW) for job in await store.lease(wanting(9), NOW)]
    await other.execute("UPDATE jobs SET due_at = $1", NOW + MINUTE)
    await store.apply(changes, NOW)
    found = await store.get("default", ids(waiting))
    assert found == {change.job_id: change.job for change in changes}
