"""Many writers at once: nothing is lost, done twice or left undecided by READ COMMITTED."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from asyncmy.errors import OperationalError

from rota.errors import DependencyCycleError, StaleVersionError, StoreUnavailableError
from rota.jobs import Job, JobStatus, Succeeded, decide_outcome
from rota.stores.mysql.connections import Session
from rota.stores.mysql.store import MysqlStore
from rota.stores.protocol import Cap, DocumentWrite, LeaseRequest
from rota.stores.sql.lease import LeaseCall
from rota.stores.sql.server import ServerSession
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
WORKERS = 8


def take(worker: str = "w", limit: int = 5, **more: Any) -> LeaseRequest:
    return LeaseRequest(worker=worker, limit=limit, lease_for=timedelta(minutes=1), **more)


def complete(job: Job) -> Any:
    return decide_outcome(job, Succeeded(), NOW)


async def test_counters_that_many_increase_lose_no_increase(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    async def increase(place: MysqlStore) -> None:
        for _ in range(10):
            while True:
                found = (await place.read("c", ["n"])).get("n")
                expected = None if found is None else found.version
                body = str(int(found.body) + 1 if found else 1).encode()
                if await place.write_each([DocumentWrite("c", "n", expected, body)]) != [None]:
                    break

    await asyncio.gather(*(increase(place) for place in (store, elsewhere) * 4))
    assert (await store.read("c", ["n"]))["n"].body == b"80"


async def test_one_of_many_that_create_the_same_document_succeeds(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    for number in range(10):
        write = DocumentWrite("c", f"key {number}", None, b"x")
        made = await asyncio.gather(*(each.write_each([write]) for each in (store, elsewhere) * 4))
        assert Counter(version for (version,) in made) == {1: 1, None: 7}


async def test_writers_of_old_and_new_documents_get_an_answer(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    """They meet in deadlocks if they do not lock what exists first, in one order."""

    async def write(place: MysqlStore, random: Random) -> None:
        for _ in range(60):
            keys = random.sample(["a", "b", "c", "d", "e", "f"], random.randint(1, 4))
            found = await place.read("c", keys)
            versions = {key: found[key].version if key in found else None for key in keys}
            await place.write_each(
                [
                    DocumentWrite(
                        *("c", key, random.choice([version, version, None, 1])),
                        random.choice([None, b"x", b"x"]),
                    )
                    for key, version in versions.items()
                ]
            )

    places = (store, elsewhere) * 4
    await asyncio.gather(*(write(place, Random(n)) for n, place in enumerate(places)))


async def test_eight_workers_drain_a_queue_with_dependents_once_each(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    parents = [a_job(due_at=NOW, tenant=f"t{number % 3}") for number in range(60)]
    children = [
        a_job(due_at=NOW, tenant=one.tenant, dependencies=(one.id, parents[(place + 3) % 60].id))
        for place, one in enumerate(parents)
    ]
    await store.insert([*parents, *children], NOW)
    done: list[str] = []

    async def work(place: MysqlStore, name: str) -> None:
        idle_count = 0
        while idle_count < 10:
            jobs = await place.lease(take(name), NOW)
            idle_count = 0 if jobs else idle_count + 1
            applied = await place.apply([complete(job) for job in jobs], NOW)
            done.extend(each.job.id for each in applied if each.job is not None)

    places = (store, elsewhere) * (WORKERS // 2)
    await asyncio.gather(*(work(place, f"w{number}") for number, place in enumerate(places)))
    assert Counter(done) == Counter(job.id for job in (*parents, *children))


async def test_writers_that_lock_in_opposite_orders_all_finish(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    """Two chains of dependents that share jobs: their ends meet in the middle."""
    first, second = a_job(due_at=NOW, priority=9), a_job(due_at=NOW)
    shared = [a_job(due_at=NOW, dependencies=(first.id, second.id)) for _ in range(20)]
    for _ in range(3):
        await store.insert([first, second, *shared], NOW)
        jobs = await store.lease(take(), NOW)
        one, other = (complete(job) for job in jobs)
        answers = await asyncio.gather(store.apply([one], NOW), elsewhere.apply([other], NOW))
        released = [each for (answer,) in answers for each in answer.released]
        assert sorted(released) == sorted(job.id for job in shared)
        first, second = a_job(due_at=NOW, priority=9), a_job(due_at=NOW)
        shared = [a_job(due_at=NOW, dependencies=(second.id, first.id)) for _ in range(20)]
        leased = await store.lease(take(limit=50), NOW)
        await store.apply([complete(job) for job in leased], NOW)


async def test_two_amendments_never_close_a_cycle_together(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    """Neither locks a job that the other one writes."""
    for _ in range(5):
        roots = [a_job(due_at=NOW), a_job(due_at=NOW)]
        first, second = (a_job(due_at=NOW, dependencies=(root.id,)) for root in roots)
        after_first = a_job(due_at=NOW, dependencies=(first.id,))
        after_second = a_job(due_at=NOW, dependencies=(second.id,))
        await store.insert([*roots, first, second, after_first, after_second], NOW)
        answers = await asyncio.gather(
            store.amend("default", first.id, {"dependencies": [after_second.id]}, NOW),
            elsewhere.amend("default", second.id, {"dependencies": [after_first.id]}, NOW),
            return_exceptions=True,
        )
        assert Counter(type(answer) for answer in answers) == {Job: 1, DependencyCycleError: 1}


async def test_a_cap_holds_however_many_lease_at_once(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    await store.insert([a_job(due_at=NOW, queue="capped") for _ in range(40)], NOW)
    request = take(limit=2, caps=(Cap(queue="capped", running=7),))
    places = (store, elsewhere) * 8
    leased = await asyncio.gather(*(place.lease(request, NOW) for place in places))
    assert sum(map(len, leased)) == 7


async def test_a_lease_passes_over_what_another_transaction_has_locked_and_keeps_the_order(
    store: MysqlStore, connection: Any
) -> None:
    jobs = [a_job(due_at=NOW, priority=priority) for priority in (9, 8, 7, 6)]
    await store.insert(jobs, NOW)
    async with connection.cursor() as cursor:
        await cursor.execute("BEGIN")
        await cursor.execute(f"SELECT 1 FROM rota_jobs WHERE id = '{jobs[0].id}' FOR UPDATE")  # noqa: S608
        assert [job.id for job in await store.lease(take(limit=2), NOW)] == [
            jobs[1].id,
            jobs[2].id,
        ]
        await cursor.execute("ROLLBACK")
    assert [job.id for job in await store.lease(take(limit=2), NOW)] == [jobs[0].id, jobs[3].id]


async def test_a_lease_locks_no_job_that_it_does_not_look_at(
    store: MysqlStore, connection: Any
) -> None:
    """Otherwise one worker at a time could lease; and inserts between them never wait."""
    await store.insert([a_job(due_at=NOW) for _ in range(50)], NOW)
    session = Session(connection, 10, 1 << 24)
    await session.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    await session.run("BEGIN")
    assert len(await LeaseCall(session, take(), NOW).take_in_turns() or ()) == 5
    await asyncio.wait_for(store.insert([a_job(due_at=NOW, priority=10)], NOW), 2)
    assert len(await store.lease(take(limit=40), NOW)) == 40
    await session.run("ROLLBACK")


async def test_a_lost_lease_neither_extends_nor_completes(store: MysqlStore) -> None:
    await store.insert([a_job(due_at=NOW)], NOW)
    (stale,) = await store.lease(take(), NOW)
    later = NOW + timedelta(hours=1)
    (lost,) = await store.find_expired(later, 10)
    from rota.jobs import Lost

    await store.apply([decide_outcome(lost, Lost(), later)], later)
    (again,) = await store.lease(take(), later + timedelta(hours=1))
    assert again.last_token > stale.last_token
    (applied,) = await store.apply([complete(stale)], later)
    assert applied.is_stale
    assert (await store.get("default", [stale.id]))[stale.id].status is JobStatus.RUNNING


@pytest.mark.parametrize("code", [1213, 1205, 1062])
async def test_work_that_the_server_rolled_back_is_done_again(store: MysqlStore, code: int) -> None:
    tried: list[int] = []

    async def work(_session: ServerSession) -> str:
        tried.append(code)
        if len(tried) < 3:
            raise OperationalError(code, "rolled back")
        return "done"

    assert await store._database.run(work) == "done"
    assert len(tried) == 3


async def test_work_that_is_rolled_back_again_and_again_is_given_up(store: MysqlStore) -> None:
    async def work(_session: ServerSession) -> None:
        raise OperationalError(1213, "Deadlock found")

    with pytest.raises(StoreUnavailableError, match="others were writing") as caught:
        await store._database.run(work)
    assert caught.value.details["outcome"] == "nothing was written"


async def test_a_stale_write_of_a_stream_leaves_nothing(store: MysqlStore) -> None:
    writes = [DocumentWrite("c", f"k{number}", None, b"x") for number in range(1200)]
    with pytest.raises(StaleVersionError):
        await store.write_all(iter([*writes, DocumentWrite("c", "k0", None, b"y")]))
    assert [page async for page in store.scan("c")] == []


async def test_many_that_create_the_same_documents_together_never_meet_a_deadlock(
    store: MysqlStore, elsewhere: MysqlStore
) -> None:
    async def create(place: MysqlStore, number: int) -> int:
        writes = [DocumentWrite("c", f"{number} {key}", None, b"x") for key in range(20)]
        try:
            await place.write_all(iter(writes))
        except StaleVersionError:
            return 0
        return 1

    for number in range(5):
        made = await asyncio.gather(*(create(each, number) for each in (store, elsewhere) * 4))
        assert sum(made) == 1


async def test_a_job_that_the_server_refuses_takes_no_other_down(store: MysqlStore) -> None:
    refused = a_job(priority=1 << 40)
    jobs = [a_job(), refused, a_job()]
    answers = await asyncio.gather(
        *(store.insert([job], NOW) for job in jobs), return_exceptions=True
    )
    assert [isinstance(answer, StoreUnavailableError) for answer in answers] == [False, True, False]
    assert (await store.get("default", [job.id for job in jobs])).keys() == {jobs[0].id, jobs[2].id}
