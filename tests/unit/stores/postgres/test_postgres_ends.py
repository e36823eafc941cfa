"""Results, ends that others listen for, and jobs with many dependencies."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import asyncpg
import pytest
from tests.unit.stores.postgres.watched import Watched

from rota.jobs import (
    Change,
    Discarded,
    Job,
    JobId,
    JobStatus,
    Outcome,
    Succeeded,
    decide_outcome,
)
from rota.stores.postgres import schema as schema_module
from rota.stores.postgres.address import PostgresSettings
from rota.stores.postgres.store import PostgresStore
from rota.stores.postgres.unit import MOST_COUNTED, apply
from rota.stores.postgres.wakeups import LONGEST_MESSAGE, MOST_ENDS, channel_of, write_ends
from rota.stores.protocol import LeaseRequest, Listener
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SOON = 20.0
REQUEST = LeaseRequest(worker="w", limit=1000, lease_for=HOUR)


async def end_all(
    store: PostgresStore, outcome: Outcome | None = None, limit: int = 1000
) -> list[JobId]:
    """Lease due jobs and end them so; their ids."""
    leased = await store.lease(LeaseRequest(worker="w", limit=limit, lease_for=HOUR), NOW)
    changes = [decide_outcome(job, outcome or Succeeded(), NOW) for job in leased]
    await store.apply(changes, NOW)
    return [job.id for job in leased]


async def heard(listener: Listener) -> bool:
    async with asyncio.timeout(SOON):
        await listener.wait()
    return True


@pytest.fixture
async def messages(store: PostgresStore, other: Connection) -> list[str]:
    """What is notified; a statement on ``other`` afterwards has received everything."""
    received: list[str] = []
    channel = channel_of(store._settings.schema)
    await other.add_listener(channel, lambda *message: received.append(str(message[-1])))
    return received


async def count_rows(other: Connection, table: str) -> int:
    number: int = await other.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - our own
    return number


@pytest.mark.parametrize("count", [1, 3, MOST_ENDS + 1])
async def test_another_program_hears_the_end_of_plain_jobs(
    store: PostgresStore, elsewhere: PostgresStore, count: int
) -> None:
    jobs = [a_job() for _ in range(count)]
    await store.insert(jobs, NOW)
    async with elsewhere.listen_for_end("default", [job.id for job in jobs]) as listener:
        await end_all(store, Succeeded(b"7"))
        assert await heard(listener)


async def test_another_program_hears_ends_that_the_kernel_decides(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    await store.insert([parent, child], NOW)
    async with (
        elsewhere.listen_for_end("default", [parent.id]) as of_parent,
        elsewhere.listen_for_end("default", [child.id]) as of_child,
    ):
        await end_all(store, Discarded("useless"))
        assert await heard(of_parent)
        assert await heard(of_child)


async def test_ends_that_no_one_listens_for_are_not_notified(
    store: PostgresStore, other: Connection, messages: list[str]
) -> None:
    parent = a_job()
    await store.insert([a_job() for _ in range(5)], NOW)
    await store.insert([parent, a_job(dependencies=[parent.id])], NOW)
    await store.insert([a_job()], NOW)
    await end_all(store, limit=1)
    await end_all(store, Discarded("useless"))
    await other.fetch("SELECT 1")
    assert all(message.endswith(",[]]") for message in messages)


async def test_only_the_tenant_can_watch_a_job(
    store: PostgresStore, other: Connection, messages: list[str]
) -> None:
    job = a_job(tenant="owner", due_at=NOW + HOUR)
    await store.insert([job], NOW)
    async with store.listen_for_end("stranger", [job.id, "no id"]):
        assert not await other.fetchval("SELECT is_watched FROM jobs")
    async with store.listen_for_end("owner", [job.id]):
        assert await other.fetchval("SELECT is_watched FROM jobs")
        messages.clear()
        await store.delete("owner", job.id)
        await other.fetch("SELECT 1")
        assert messages == [write_ends([job.id])]


async def test_a_new_listener_waits_for_an_end_that_is_being_committed(
    store: PostgresStore, other: Connection
) -> None:
    """Afterwards the job can be read as ended: no notification is needed."""
    job = a_job()
    await store.insert([job], NOW)
    ending = other.transaction()
    await ending.start()
    await other.execute("UPDATE jobs SET status = 'FAILED', is_due = NULL")
    listening = store.listen_for_end("default", [job.id])
    entering = asyncio.create_task(listening.__aenter__())
    await asyncio.wait([entering], timeout=0.2)
    assert not entering.done()
    await ending.commit()
    await entering
    assert (await store.get("default", [job.id]))[job.id].status is JobStatus.FAILED
    await listening.__aexit__(None, None, None)


async def test_an_end_that_has_begun_before_the_watching_notifies_too(
    store: PostgresStore, other: Connection, messages: list[str]
) -> None:
    """Its statement began earlier, but it sees the mark once it has the lock of the row."""
    job = a_job()
    await store.insert([job], NOW)
    (leased,) = await store.lease(REQUEST, NOW)
    marking = other.transaction()
    await marking.start()
    await other.execute("UPDATE jobs SET is_watched = true")
    change = decide_outcome(leased, Succeeded(), NOW)
    ending = asyncio.create_task(store.apply([change], NOW))
    await asyncio.wait([ending], timeout=0.2)
    assert not ending.done()
    messages.clear()
    await marking.commit()
    await ending
    await other.fetch("SELECT 1")
    assert len(messages) == 1
    assert job.id in messages[0]


def test_a_message_about_many_ends_names_none_of_them() -> None:
    jobs = [a_job().id for _ in range(MOST_ENDS)]
    assert len(write_ends(jobs)) <= LONGEST_MESSAGE
    assert write_ends([*jobs, a_job().id]) == '["",[],null]'


async def test_a_job_that_returns_nothing_writes_no_result(
    store: PostgresStore, other: Connection
) -> None:
    await store.insert([a_job() for _ in range(4)], NOW)
    await end_all(store, limit=1)
    await end_all(store, limit=2)
    assert await count_rows(other, "job_results") == 0
    await end_all(store, Succeeded(b"1"))
    assert await count_rows(other, "job_results") == 1


async def test_a_success_with_a_log_is_written_with_other_completions(
    store: PostgresStore,
) -> None:
    jobs = [a_job() for _ in range(3)]
    await store.insert(jobs, NOW)
    logs = [None, "one", "two"]
    leased = await store.lease(REQUEST, NOW)
    await store.apply(
        [
            decide_outcome(job, Succeeded(log=log), NOW)
            for job, log in zip(leased, logs, strict=True)
        ],
        NOW,
    )
    attempts = [await store.attempts("default", job.id) for job in leased]
    assert [(one.outcome, one.log) for (one,) in attempts] == [("succeeded", log) for log in logs]


async def complete_one_of(
    store: PostgresStore, statements: Watched, parents: Sequence[Job]
) -> Change:
    """Insert jobs with one dependent, and count the pages that the end of one of them reads."""
    child = a_job(dependencies=[job.id for job in parents])
    await store.insert([*parents, child], NOW)
    (leased, *_) = await store.lease(REQUEST, NOW)
    change = decide_outcome(leased, Succeeded(), NOW)
    statements.is_counting, statements.page_count = True, 0
    await apply(statements, [change], NOW, is_native=True)
    statements.is_counting = False
    return change


async def test_the_end_of_a_dependency_costs_the_same_in_any_width(
    store: PostgresStore, statements: Watched
) -> None:
    page_counts = []
    for width in (MOST_COUNTED + 1, 20 * MOST_COUNTED):
        await complete_one_of(store, statements, [a_job() for _ in range(width)])
        page_counts.append(statements.page_count)
    narrow, wide = page_counts
    assert wide <= narrow + 20


async def test_dependencies_are_counted_where_the_number_is_not_stored(
    store: PostgresStore, other: Connection
) -> None:
    """As for jobs of programs that know no stored number."""
    few = [a_job() for _ in range(MOST_COUNTED)]
    many = [a_job() for _ in range(MOST_COUNTED + 1)]
    children = [a_job(dependencies=[job.id for job in jobs]) for jobs in (few, many)]
    await store.insert([*few, *many, *children], NOW)
    stored = await other.fetch("SELECT job_id::text, open_count FROM open_dependencies")
    assert [tuple(row) for row in stored] == [(children[1].id, MOST_COUNTED + 1)]
    while await end_all(store, limit=40):
        pass
    ended = await store.get("default", [child.id for child in children])
    assert {job.status for job in ended.values()} == {JobStatus.COMPLETED}
    assert await count_rows(other, "open_dependencies") == 0


async def test_jobs_of_an_older_schema_are_released_after_the_upgrade(
    postgres_settings: PostgresSettings, other: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(schema_module, "MIGRATIONS", schema_module.MIGRATIONS[:3])
        database = await schema_module.open_database(postgres_settings)
        await database.close()
    parent, child = a_job().id, a_job().id
    rows = (
        (parent, True, "READY", '{"name":"n","kind":"k"}'),
        (child, None, "PENDING", f'{{"name":"n","kind":"k","dependencies":["{parent}"]}}'),
    )
    for job_id, is_due, status, body in rows:
        await other.execute(
            "INSERT INTO jobs (id, due_at, created_at, updated_at, last_token, priority,"
            " attempt_count, loss_count, is_due, is_awaited, status, tenant, queue, body)"
            " VALUES ($1::uuid, $2, $2, $2, 0, 5, 0, 0, $3, $4, $5, 'default', 'default', $6)",
            *(job_id, NOW, is_due, is_due is not None, status, body),
        )
    await other.execute("INSERT INTO job_dependencies VALUES ($1::uuid, $2::uuid)", parent, child)
    async with await PostgresStore.open(postgres_settings) as store:
        assert await end_all(store) == [parent]
        assert await end_all(store) == [child]
