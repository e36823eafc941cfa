"""Writers that meet: the same key, parents that end together, circles that close from two sides."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeAlias

import asyncpg
import pytest

from rota.errors import DependencyCycleError, InvalidJobError
from rota.jobs import Job, JobStatus, decide_complete
from rota.stores.postgres import unit
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERYTHING = LeaseRequest(worker="w", limit=100, lease_for=timedelta(minutes=1))


async def lease_all(store: PostgresStore) -> dict[str, Job]:
    return {job.id: job for job in await store.lease(EVERYTHING, NOW)}


@pytest.mark.parametrize("count", [1, 3])
async def test_a_winner_that_rolls_back_does_not_swallow_the_loser(
    store: PostgresStore, other: Connection, count: int
) -> None:
    """The loser waits for the winner's end, and is kept when that was no commit."""
    begun = other.transaction()
    await begun.start()
    await store.insert_within(other, [a_job(idempotency_key="key")], NOW)
    mine = [a_job(idempotency_key="key"), *(a_job() for _ in range(count - 1))]
    losing = asyncio.create_task(store.insert(mine, NOW))
    await asyncio.wait([losing], timeout=0.1)
    assert not losing.done()
    await begun.rollback()
    answers = await losing
    assert [(one.job.id, one.is_existing) for one in answers] == [(job.id, False) for job in mine]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_loser_gets_the_winners_job(
    store: PostgresStore, other: Connection, count: int
) -> None:
    winner = a_job(idempotency_key="key")
    begun = other.transaction()
    await begun.start()
    await store.insert_within(other, [winner], NOW)
    mine = [a_job(idempotency_key="key"), *(a_job() for _ in range(count - 1))]
    losing = asyncio.create_task(store.insert(mine, NOW))
    await asyncio.wait([losing], timeout=0.1)
    await begun.commit()
    answers = await losing
    assert (answers[0].job.id, answers[0].is_existing) == (winner.id, True)
    assert await store.count("default") == count


async def test_programs_that_insert_the_same_keys_at_once_keep_each_once(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    def batch(order: int) -> list[Job]:
        return [a_job(idempotency_key=str(number)) for number in range(20)][::order]

    calls = [each.insert(batch(order), NOW) for each in (store, elsewhere) * 4 for order in (1, -1)]
    answers = [one for each in await asyncio.gather(*calls) for one in each]
    assert sum(not one.is_existing for one in answers) == 20
    assert await store.count("default") == 20


async def test_keys_are_stored_in_one_order_so_that_two_programs_do_not_wait_for_each_other(
    store: PostgresStore, other: Connection
) -> None:
    first, second = a_job(idempotency_key="a"), a_job(idempotency_key="b")
    async with other.transaction():
        await store.insert_within(other, [first], NOW)
        mine = [a_job(idempotency_key="b"), a_job(idempotency_key="a")]
        losing = asyncio.create_task(store.insert(mine, NOW))
        await asyncio.wait([losing], timeout=0.1)
        await other.execute("SET LOCAL lock_timeout = '500ms'")  # sooner than deadlocks are found
        await store.insert_within(other, [second], NOW)
    answers = await losing
    assert [(one.job.id, one.is_existing) for one in answers] == [
        (second.id, True),
        (first.id, True),
    ]


async def test_parents_that_end_in_two_programs_release_once(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    for _ in range(10):
        parents = [a_job() for _ in range(4)]
        children = [a_job(dependencies=[job.id for job in parents]) for _ in range(5)]
        await store.insert([*children, *parents], NOW)
        leased = await lease_all(store)
        calls = [
            each.apply([decide_complete(leased[job.id], NOW)], NOW)
            for each, job in zip((store, elsewhere) * 2, parents, strict=True)
        ]
        answers = await asyncio.gather(*calls)
        released = [each for (answer,) in answers for each in answer.released]
        assert released == sorted(job.id for job in children)
        assert len(await lease_all(store)) == 5


async def test_a_child_that_is_about_to_be_kept_is_released_by_its_parents_end(
    store: PostgresStore, other: Connection
) -> None:
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    await store.insert([parent], NOW)
    leased = await lease_all(store)
    begun = other.transaction()
    await begun.start()
    await store.insert_within(other, [child], NOW)
    ending = asyncio.create_task(store.apply([decide_complete(leased[parent.id], NOW)], NOW))
    await asyncio.wait([ending], timeout=0.1)
    assert not ending.done()
    await begun.commit()
    (answer,) = await ending
    assert answer.released == (child.id,)


async def test_completions_beside_one_that_others_wait_for_are_one_step(
    store: PostgresStore, other: Connection
) -> None:
    """While the dependent is locked by another nothing of the call is seen."""
    waiting = [a_job() for _ in range(3)]
    child = a_job(dependencies=[waiting[1].id])
    await store.insert([*waiting, child], NOW)
    leased = await lease_all(store)
    async with other.transaction():
        await other.execute("SELECT FROM jobs WHERE id = $1 FOR UPDATE", child.id)
        ending = asyncio.create_task(
            store.apply([decide_complete(leased[job.id], NOW) for job in waiting], NOW)
        )
        await asyncio.wait([ending], timeout=0.1)
        kept = await store.get("default", [job.id for job in waiting])
        assert {job.status for job in kept.values()} == {JobStatus.RUNNING}
    assert [answer.released for answer in await ending] == [(), (child.id,), ()]


async def test_programs_that_settle_the_same_jobs_in_other_orders_do_not_fail(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    jobs = [a_job() for _ in range(40)]
    children = [a_job(dependencies=[one.id, two.id]) for one, two in pairwise(jobs)]
    await store.insert([*jobs, *children], NOW)
    leased = list((await lease_all(store)).values())
    changes = [decide_complete(job, NOW) for job in leased]
    calls = [
        each.apply(changes[start::3][::order], NOW)
        for start in range(3)
        for each, order in ((store, 1), (elsewhere, -1))
    ]
    answers = [one for each in await asyncio.gather(*calls) for one in each]
    assert sum(not answer.is_stale for answer in answers) == 40
    assert sum(len(answer.released) for answer in answers) == 39


async def test_two_amendments_that_make_a_circle_together_are_not_both_accepted(
    store: PostgresStore, elsewhere: PostgresStore
) -> None:
    """Each adds one link of a circle of four; neither touches a job of the other."""
    root = a_job()
    one, three = a_job(dependencies=[root.id]), a_job(dependencies=[root.id])
    two, four = a_job(dependencies=[one.id]), a_job(dependencies=[three.id])
    await store.insert([root, one, two, three, four], NOW)
    outcomes = await asyncio.gather(
        store.amend("default", one.id, {"dependencies": [four.id]}, NOW),
        elsewhere.amend("default", three.id, {"dependencies": [two.id]}, NOW),
        return_exceptions=True,
    )
    assert sorted(isinstance(each, DependencyCycleError) for each in outcomes) == [False, True]


async def test_many_jobs_are_kept_in_several_statements_or_not_at_all(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit, "MOST_AT_ONCE", 4)
    jobs = [a_job() for _ in range(11)]
    assert len(await store.insert(jobs, NOW)) == 11
    again = await store.insert([*(a_job() for _ in range(5)), jobs[10]], NOW)
    assert [one.is_existing for one in again] == [False] * 5 + [True]
    assert await store.count("default") == 16
    monkeypatch.setattr(unit, "MOST_BYTES_AT_ONCE", 10)
    assert len(await store.insert([a_job() for _ in range(3)], NOW)) == 3


async def test_an_invalid_id_is_refused_by_name(store: PostgresStore) -> None:
    with pytest.raises(InvalidJobError, match="id must be a UUID"):
        await store.insert([a_job(id="1")], NOW)
    assert await store.get("default", ["1", "", "\0"]) == {}


async def test_instants_at_the_ends_of_the_calendar_are_kept(store: PostgresStore) -> None:
    first = datetime.min.replace(tzinfo=UTC)
    last = datetime.max.replace(tzinfo=UTC)
    jobs = [a_job(due_at=first, created_at=first), a_job(due_at=last, created_at=last)]
    await store.insert(jobs, NOW)
    assert await store.get("default", [job.id for job in jobs]) == {job.id: job for job in jobs}
    assert list(await lease_all(store)) == [jobs[0].id]
    assert await store.next_due_at(NOW) == last
    assert await store.next_due_at(NOW, queues=["default"]) == last
