"""Many who wait for one, one who waits for many, and long chains."""

from collections.abc import Callable
from typing import Any

from rota.jobs import Discarded, Failed, JobStatus, decide_complete, decide_outcome
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, end, statuses, take

CHAIN_LENGTH = 10_000
FAMILY_SIZE = 1_000


async def test_a_chain_of_any_length_is_blocked_at_once(store: SqliteStore) -> None:
    chain = [a_job()]
    for _ in range(CHAIN_LENGTH - 1):
        chain.append(a_job(dependencies=[chain[-1].id]))
    await store.insert(chain, NOW)
    (leased,) = await take(store)
    applied = await end(store, leased, Discarded("no"))
    assert applied.blocked == tuple(sorted(job.id for job in chain[1:]))


async def test_a_dependent_of_many_is_released_by_the_last(store: SqliteStore) -> None:
    parents = [a_job() for _ in range(FAMILY_SIZE)]
    child = a_job(dependencies=[parent.id for parent in parents])
    await store.insert([*parents, child], NOW)
    leased = await take(store, limit=FAMILY_SIZE)
    answers = await store.apply([decide_complete(job, NOW) for job in leased], NOW)
    assert [answer.released for answer in answers[:-1]] == [()] * (FAMILY_SIZE - 1)
    assert answers[-1].released == (child.id,)


async def test_dependents_of_one_job_are_released_together(store: SqliteStore) -> None:
    parent = a_job()
    children = [a_job(dependencies=[parent.id]) for _ in range(FAMILY_SIZE)]
    await store.insert([parent, *children], NOW)
    (leased,) = await take(store)
    assert len((await end(store, leased)).released) == FAMILY_SIZE
    assert len(await take(store, limit=FAMILY_SIZE + 1)) == FAMILY_SIZE


async def test_a_released_job_ends_in_its_turn(store: SqliteStore) -> None:
    """Changes of one call are written in order, those with dependents among them."""
    first = a_job()
    second = a_job(dependencies=[first.id])
    await store.insert([first, second], NOW)
    (leased,) = await take(store)
    call_off = decide_outcome(leased, Discarded("no"), NOW)
    answers = await store.apply([decide_complete(leased, NOW), call_off], NOW)
    assert [answer.is_stale for answer in answers] == [False, True]
    assert await statuses(store, first, second) == [JobStatus.COMPLETED, JobStatus.READY]


async def test_nothing_is_left_of_what_was_pruned(
    store: SqliteStore, reach_in: Callable[..., list[Any]]
) -> None:
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    await store.insert([parent, child], NOW)
    for step in range(3):
        for leased in await take(store, NOW + step * DAY):
            failed = Failed("no") if step == 0 else None
            await end(store, leased, failed, NOW + step * DAY + MINUTE)
    assert (await store.prune(NOW + 9 * DAY, 10)).removed == 2
    left = reach_in(
        "SELECT id FROM jobs UNION SELECT parent FROM job_dependencies"
        " UNION SELECT job_id FROM job_attempts"
    )
    assert left == []
