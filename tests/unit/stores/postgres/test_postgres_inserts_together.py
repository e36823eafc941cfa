"""Callers that each insert one job at the same moment: one statement, and an answer for each."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.clock.loop import turn
from rota.errors import InvalidJobError, StoreUnavailableError
from rota.stores.postgres.connections import Session
from rota.stores.postgres.queries import QUERIES
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERYTHING = LeaseRequest(worker="w", limit=100, lease_for=timedelta(minutes=1))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that insert, in order."""
    statements: list[str] = []
    fetch = Session.fetch

    async def note(session: Session, statement: str, *arguments: Any) -> Any:
        if "INSERT INTO rota.jobs" in statement:
            statements.append(statement)
        return await fetch(session, statement, *arguments)

    monkeypatch.setattr(Session, "fetch", note)
    return statements


async def test_jobs_that_come_while_one_is_inserted_are_one_statement(
    store: PostgresStore, sent: list[str]
) -> None:
    jobs = [a_job(queue=f"q{number % 3}") for number in range(50)]
    answers = await asyncio.gather(*(store.insert([job], NOW) for job in jobs))
    assert [[(one.job.id, one.is_existing) for one in each] for each in answers] == [
        [(job.id, False)] for job in jobs
    ]
    assert sent == [QUERIES.insert_one, QUERIES.insert_jobs]  # the first came alone
    assert {job.id for job in await store.lease(EVERYTHING, NOW)} == {job.id for job in jobs}


async def test_a_job_alone_is_inserted_by_the_statement_for_one(
    store: PostgresStore, sent: list[str]
) -> None:
    await store.insert([a_job()], NOW)
    await store.insert([a_job()], NOW)
    assert sent == [QUERIES.insert_one] * 2


async def test_a_job_that_comes_after_another_forms_no_group(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise AssertionError("it came alone")

    monkeypatch.setattr(store._singles, "run", fail)
    with pytest.raises(InvalidJobError):
        await store.insert([a_job(id="not an id")], NOW)
    for _ in range(2):
        await store.insert([a_job()], NOW)
    assert await store.count("default") == 2


async def test_each_job_is_due_at_its_own_time(store: PostgresStore) -> None:
    soon = NOW + timedelta(seconds=1)
    jobs = [a_job(due_at=NOW), a_job(due_at=soon), a_job(due_at=soon + timedelta(days=1))]
    await asyncio.gather(
        store.insert([jobs[0]], NOW), store.insert([jobs[1]], soon), store.insert([jobs[2]], NOW)
    )
    assert {job.id for job in await store.lease(EVERYTHING, soon)} == {jobs[0].id, jobs[1].id}


async def test_closing_waits_for_jobs_that_wait_for_their_turn(
    store: PostgresStore, postgres_settings: Any
) -> None:
    beside = await PostgresStore.open(postgres_settings)
    calls = [asyncio.create_task(beside.insert([a_job()], NOW)) for _ in range(20)]
    await turn()
    calls += [asyncio.create_task(beside.insert([a_job()], NOW)) for _ in range(20)]
    await turn()
    await beside.close()
    assert [len(await call) for call in calls] == [1] * 40
    assert await store.count("default") == 40


async def test_a_job_that_the_server_refuses_takes_no_other_down(store: PostgresStore) -> None:
    refused = a_job(priority=1 << 40)
    jobs = [a_job(), refused, a_job()]
    answers = await asyncio.gather(
        *(store.insert([job], NOW) for job in jobs), return_exceptions=True
    )
    assert [isinstance(answer, StoreUnavailableError) for answer in answers] == [False, True, False]
    assert (await store.get("default", [job.id for job in jobs])).keys() == {jobs[0].id, jobs[2].id}
