"""Another member of a replica set becomes the primary: what the driver and the store make of it.

There is no replica set here: in front of one server stands what looks like one to a driver, see
``replica_front``. The driver's own search for the primary and its retryable writes are real.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from secrets import token_hex

import pytest
from pymongo.uri_parser import parse_uri
from tests.servers.patience import PATIENTLY, is_patient, open_patiently
from tests.servers.shared import in_database
from tests.unit.stores.mongo.replicas.replica_front import ReplicaFront

from rota.errors import StoreUnavailableError
from rota.jobs import JobStatus, Lost, Succeeded, decide_outcome
from rota.stores.mongo.address import read_address
from rota.stores.mongo.gateway import Query
from rota.stores.mongo.steps.names import INTENTS
from rota.stores.mongo.store import MongoStore
from rota.stores.protocol import DocumentWrite, HeldLease, LeaseRequest
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.worker import Context, Worker

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REQUEST = LeaseRequest(worker="worker", limit=10, lease_for=MINUTE)


@pytest.fixture
def only_patiently() -> None:
    """A driver looks for a primary at most twice a second, so that these take a while."""
    if not is_patient():
        pytest.skip(f"too slow for every run: see {PATIENTLY}")


@pytest.fixture
def front(mongo_url: str) -> Iterator[ReplicaFront]:
    ((_, port),) = parse_uri(mongo_url)["nodelist"]
    with ReplicaFront(port).open() as front:
        yield front


@pytest.fixture
def set_url(front: ReplicaFront) -> str:
    return in_database(front.url, f"rota_test_{token_hex(6)}")


async def test_the_primary_is_found_among_the_members_and_again_after_an_election(
    front: ReplicaFront, set_url: str
) -> None:
    job = a_job()
    async with await open_patiently(set_url) as store:
        await store.insert([job], NOW)
        (leased,) = await store.lease(REQUEST, NOW)
        for primary in (1, 0):
            front.step_down()
            front.elect(primary)
            assert await store.get("default", [job.id]) == {job.id: leased}
        front.step_down()
        front.elect(1)
        keeper = store.make_keeper()
        try:
            held = [HeldLease(leased.id, leased.last_token)]
            assert keeper.extend(held, NOW + 2 * MINUTE, NOW) == [True]
            front.fail_over()
            assert keeper.extend(held, NOW + 3 * MINUTE, NOW) == [True]
        finally:
            keeper.close()
        (answer,) = await store.apply([decide_outcome(leased, Succeeded(), NOW)], NOW)
        assert not answer.is_stale
        assert (await store.get("default", [job.id]))[job.id].status is JobStatus.COMPLETED


@pytest.mark.parametrize("is_carried_out", [True, False] if is_patient() else [True])
async def test_a_single_write_that_is_lost_with_the_primary_is_done_once(
    front: ReplicaFront, set_url: str, is_carried_out: bool
) -> None:
    """The driver sends it again; what was carried out is known to the new primary."""
    job = a_job(idempotency_key="key")
    async with await open_patiently(set_url) as store:
        front.fail_over_at(0, is_carried_out=is_carried_out)
        (inserted,) = await store.insert([job], NOW)
        assert not inserted.is_existing
        (leased,) = await store.lease(REQUEST, NOW)
        front.fail_over_at(0, is_carried_out=is_carried_out)
        (answer,) = await store.apply([decide_outcome(leased, Succeeded(), NOW)], NOW)
        assert not answer.is_stale
        front.fail_over_at(0, is_carried_out=is_carried_out)
        assert await store.write_each([DocumentWrite("tasks", "a", None, b"")]) == [1]
        assert front.repeated_count == 3 * is_carried_out
        kept = (await store.get("default", [job.id]))[job.id]
        assert (kept.status, kept.last_token) == (JobStatus.COMPLETED, 1)


async def test_a_lease_whose_answer_is_lost_with_the_primary_runs_out(
    front: ReplicaFront, set_url: str
) -> None:
    """A write to many documents is none that a driver sends again: nobody knows of the lease."""
    async with await open_patiently(set_url) as store:
        await store.insert([a_job()], NOW)
        front.fail_over_at(0, is_carried_out=True)
        with pytest.raises(StoreUnavailableError) as caught:
            await store.lease(REQUEST, NOW)
        assert caught.value.details["outcome"] == "unknown"
        assert await store.lease(REQUEST, NOW) == []
        late = NOW + 2 * MINUTE
        (expired,) = await store.find_expired(late, 10)
        await store.apply([decide_outcome(expired, Lost(), late)], late)
        (again,) = await store.lease(REQUEST, late + MINUTE)
        assert (again.id, again.last_token) == (expired.id, 2)


@pytest.mark.usefixtures("only_patiently")
async def test_an_election_that_takes_too_long_is_an_error_and_then_over(
    front: ReplicaFront, set_url: str
) -> None:
    await (await open_patiently(set_url)).close()  # to lay in indexes takes a stand-in a while
    settings = replace(read_address(set_url), connect_for=timedelta(seconds=1))
    async with await MongoStore.open(settings) as store:
        front.step_down()
        with pytest.raises(StoreUnavailableError) as caught:
            await store.insert([a_job()], NOW)
        assert "the one that takes writes" in caught.value.details["reason"]
        with pytest.raises(StoreUnavailableError) as caught:
            await store.insert([a_job()], NOW)
        assert "no server that can be written to" in caught.value.details["reason"]
        assert caught.value.details["outcome"] == "nothing was written"
        front.elect(1)
        await store.insert([a_job()], NOW)
        assert await store.count("default") == 1


async def test_an_election_is_waited_for(front: ReplicaFront, set_url: str) -> None:
    async with await open_patiently(set_url) as store:
        front.step_down()
        inserting = asyncio.create_task(store.insert([a_job()], NOW))
        done, _ = await asyncio.wait([inserting], timeout=0.2)
        assert not done
        front.elect(1)
        await inserting
        assert await store.count("default") == 1


WRITES_OF_A_STEP = 5
"""Declare, stage, commit, reveal, forget, as when the parent of a job is completed."""


@pytest.mark.parametrize("is_carried_out", [True, False] if is_patient() else [True])
@pytest.mark.parametrize("write", range(WRITES_OF_A_STEP) if is_patient() else [2])
async def test_a_step_that_meets_a_new_primary_comes_about_once_or_not_at_all(
    front: ReplicaFront, set_url: str, write: int, is_carried_out: bool
) -> None:
    """Before its first write there is that of the job alone, which does not hold: it is awaited."""
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    async with await open_patiently(set_url) as store:
        await store.insert([parent, child], NOW)
        (leased,) = await store.lease(REQUEST, NOW)
        change = decide_outcome(leased, Succeeded(), NOW)
        front.fail_over_at(1 + write, is_carried_out=is_carried_out)
        try:
            (answer,) = await store.apply([change], NOW)
            assert not answer.is_stale
        except StoreUnavailableError as error:
            assert error.details["outcome"] == "unknown"  # noqa: PT017 - either is allowed
            await store.apply([change], NOW)
        assert front.write_count > 1 + write
        kept = await store.get("default", [parent.id, child.id])
        assert kept[parent.id].status is JobStatus.COMPLETED
        assert [job.id for job in await store.lease(REQUEST, NOW)] == [child.id]
        assert await store._gateway.find(Query(INTENTS, {})) == []


@pytest.mark.usefixtures("only_patiently")
async def test_a_worker_outlasts_a_change_of_primary(front: ReplicaFront, set_url: str) -> None:
    clock, done = VirtualClock(NOW), []

    async def handle(context: Context) -> None:
        done.append(context.job.id)
        if len(done) == 1:
            front.fail_over()

    async with await open_patiently(set_url) as store:
        jobs = [a_job(kind="kind") for _ in range(3)]
        await store.insert(jobs, NOW)
        worker = Worker(store, {"kind": handle}, clock=clock)
        running = asyncio.create_task(worker.run())
        await clock.advance(timedelta(seconds=20))
        worker.stop()
        await clock.run(running)
        kept = await store.get("default", [job.id for job in jobs])
        assert {job.status for job in kept.values()} == {JobStatus.COMPLETED}
    assert sorted(done) == sorted(job.id for job in jobs)
