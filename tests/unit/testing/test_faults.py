"""A store struck by faults."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.clock.loop import turn
from rota.clock.virtual import VirtualClock
from rota.errors import StoreClosedError, StoreUnavailableError, UnsupportedConnectionError
from rota.jobs import Failed, Job, decide_outcome
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, HeldLease, Inserted, JobStore, LeaseRequest, Reach
from rota.testing import a_job
from rota.testing.faults import (
    Failure,
    Fault,
    Faults,
    FaultyStore,
    StoreCall,
    faults_on,
    scripted_faults,
    seeded_faults,
)
from rota.testing.job_store_contract import JobStoreContract, JobStoreFactory
from rota.testing.store_contract import StoreContract, StoreFactory

START = datetime(2030, 1, 1, tzinfo=UTC)
WRITE = DocumentWrite("tasks", "a", None, b"")


def struck(faults: Faults) -> tuple[FaultyStore, MemoryStore]:
    inner = MemoryStore()
    return FaultyStore(inner, VirtualClock(START), faults), inner


async def scan(store: FaultyStore) -> int:
    return sum([len(page) async for page in store.scan("tasks")])


async def test_calls_without_a_fault_pass_through() -> None:
    store, inner = struck(scripted_faults({}))
    async with store:
        assert await store.write_each([WRITE]) == [1]
        await store.write_all([WRITE._replace(key="b")])
        assert sorted(await store.read("tasks", ["a", "b"])) == ["a", "b"]
        assert await scan(store) == 2
        assert store.call_count == 5  # the scan asked for one page, and for another in vain
        assert store.injected == []
        assert store.reach is Reach.PROCESS
    with pytest.raises(StoreClosedError):
        await inner.read("tasks", ["a"])


@pytest.mark.parametrize("failure", list(Failure))
@pytest.mark.parametrize("verb", ["write_each", "write_all"])
async def test_a_write_fails_before_or_after_it_was_carried_out(
    failure: Failure, verb: str
) -> None:
    store, inner = struck(scripted_faults({1: Fault(failure)}))
    call: Awaitable[Any] = getattr(store, verb)([WRITE])
    with pytest.raises(StoreUnavailableError, match=rf"call 1 \({verb}\) fails {failure.value}"):
        await call
    assert len(await inner.read("tasks", ["a"])) == (failure is Failure.AFTER)
    assert store.injected == [(StoreCall(1, verb), Fault(failure))]


async def test_verbs_within_a_transaction_are_struck_by_their_names() -> None:
    store, _ = struck(scripted_faults({1: Fault(Failure.BEFORE), 2: Fault(Failure.BEFORE)}))
    with pytest.raises(StoreUnavailableError, match=r"\(read_within\) fails before"):
        await store.read_within(None, "tasks", ["a"])
    with pytest.raises(StoreUnavailableError, match=r"\(write_within\) fails before"):
        await store.write_within(None, [WRITE])
    with pytest.raises(UnsupportedConnectionError):
        await store.read_within(None, "tasks", ["a"])
    with pytest.raises(UnsupportedConnectionError):
        await store.write_within(None, [WRITE])


@pytest.mark.parametrize("number", [1, 2])
async def test_each_page_of_a_scan_can_fail(number: int) -> None:
    store, inner = struck(scripted_faults({number: Fault(Failure.BEFORE)}))
    await inner.write_each([WRITE])
    with pytest.raises(StoreUnavailableError, match=rf"call {number} \(scan\)"):
        await scan(store)


async def test_a_delay_is_waited_for_before_the_call_or_before_its_answer() -> None:
    clock = VirtualClock(START)
    inner = MemoryStore()
    fault = Fault(delay_for=timedelta(seconds=2), answer_delay_for=timedelta(seconds=3))
    store = FaultyStore(inner, clock, scripted_faults({1: fault}))
    written_at: list[datetime] = []

    def note() -> Any:
        written_at.append(clock.now())
        return iter([WRITE])

    class Noting:
        __iter__ = staticmethod(note)

    await clock.run(store.write_all(Noting()))
    assert written_at == [START + timedelta(seconds=2)]
    assert clock.now() == START + timedelta(seconds=5)


def test_the_same_seed_strikes_the_same_calls() -> None:
    calls = [StoreCall(number, "read") for number in range(500)]
    one, again, other = (
        list(map(seeded_faults(seed, fault_share=0.2, longest_delay=timedelta(1)), calls))
        for seed in (7, 7, 8)
    )
    assert one == again != other
    struck = [fault for fault in one if fault]
    assert 60 < len(struck) < 140
    assert {fault.failure for fault in struck} == {Failure.BEFORE, Failure.AFTER, None}
    assert all(timedelta(0) <= fault.delay_for <= timedelta(1) for fault in struck)


def test_a_share_of_none_or_all_is_kept_exactly() -> None:
    calls = [StoreCall(number, "read") for number in range(100)]
    assert not any(map(seeded_faults(1, fault_share=0), calls))
    always = seeded_faults(1, fault_share=1, failures=[Failure.AFTER])
    assert [always(call) for call in calls] == [Fault(Failure.AFTER)] * 100


NOW = START
MINUTE = timedelta(minutes=1)


def lease_request() -> LeaseRequest:
    return LeaseRequest(worker="w", limit=10, lease_for=MINUTE)


def calls_of_every_job_verb(store: FaultyStore, job: Job) -> dict[str, Awaitable[Any]]:
    held = [HeldLease(job.id, 1)]
    return {
        "insert": store.insert([a_job()], NOW),
        "insert_within": store.insert_within(None, [a_job()], NOW),
        "lease": store.lease(lease_request(), NOW),
        "extend": store.extend(held, NOW + MINUTE, NOW),
        "apply": store.apply([], NOW),
        "amend": store.amend("default", job.id, {"priority": 3}, NOW),
        "delete": store.delete("default", job.id),
        "prune": store.prune(NOW, 1),
        "find_expired": store.find_expired(NOW, 1),
        "next_due_at": store.next_due_at(NOW),
        "survey": store.survey(NOW),
        "get": store.get("default", [job.id]),
        "find": store.find("default"),
        "count": store.count("default"),
        "attempts": store.attempts("default", job.id),
        "find_dependents": store.find_dependents("default", [job.id], 1),
    }


async def test_every_verb_of_jobs_is_struck_by_its_name() -> None:
    store, inner = struck(lambda _: Fault(Failure.BEFORE))
    job = a_job()
    await inner.insert([job], NOW)
    before = await inner.find("default")
    calls = calls_of_every_job_verb(store, job)
    for verb, call in calls.items():
        with pytest.raises(StoreUnavailableError, match=rf"\({verb}\) fails before") as caught:
            await call
        assert caught.value.details["outcome"] == "nothing was written"
    assert [call.verb for call, _ in store.injected] == list(calls)
    assert await inner.find("default") == before


async def test_a_job_is_worked_on_as_on_the_other_store() -> None:
    store, _ = struck(scripted_faults({}))
    jobs: JobStore = store
    job = a_job(name="mail", kind="mail", due_at=NOW)
    (inserted,) = await jobs.insert([job], NOW)
    assert inserted == Inserted(job)
    assert await jobs.next_due_at(NOW - MINUTE) == job.due_at
    (leased,) = await jobs.lease(lease_request(), NOW)
    held = [HeldLease(job.id, leased.last_token)]
    assert await jobs.extend(held, NOW + 2 * MINUTE, NOW) == [True]
    assert jobs.make_keeper().extend(held, NOW + 3 * MINUTE, NOW) == [True]
    assert await jobs.find_expired(NOW + MINUTE, 10) == []
    (expired,) = await jobs.find_expired(NOW + 4 * MINUTE, 10)
    (applied,) = await jobs.apply([decide_outcome(expired, Failed("no"), NOW)], NOW)
    assert not applied.is_stale
    assert [attempt.error for attempt in await jobs.attempts("default", job.id)] == ["no"]
    assert (await jobs.amend("default", job.id, {"priority": 3}, NOW)).priority == 3
    assert await jobs.count("default") == 1
    assert [found.id for found in (await jobs.find("default")).items] == [job.id]
    assert list(await jobs.get("default", [job.id])) == [job.id]
    assert (await jobs.prune(NOW, 10)).removed == 0
    assert (await jobs.delete("default", job.id)).id == job.id
    assert store.call_count == 15


@pytest.mark.parametrize(
    ("failure", "is_kept", "outcome"),
    [
        (Failure.BEFORE, False, "nothing was written"),
        (Failure.AFTER, True, "unknown"),
        (Failure.LOST, False, "unknown"),
    ],
)
async def test_lost_calls_and_done_calls_look_alike(
    failure: Failure, is_kept: bool, outcome: str
) -> None:
    store, inner = struck(scripted_faults({1: Fault(failure)}))
    with pytest.raises(StoreUnavailableError) as caught:
        await store.insert([a_job()], NOW)
    assert caught.value.details == {"call": 1, "verb": "insert", "outcome": outcome}
    assert await inner.count("default") == is_kept


async def test_a_lease_whose_answer_is_lost_is_taken_all_the_same() -> None:
    store, inner = struck(faults_on(["lease"], scripted_faults({1: Fault(Failure.AFTER)})))
    await store.insert([a_job()], NOW)
    with pytest.raises(StoreUnavailableError):
        await store.lease(lease_request(), NOW)
    assert await store.lease(lease_request(), NOW) == []
    assert len(await inner.find_expired(NOW + 2 * MINUTE, 10)) == 1


async def test_a_keeper_is_struck_in_its_own_thread_and_waits_for_nothing() -> None:
    fault = Fault(Failure.LOST, delay_for=MINUTE)
    store, _ = struck(faults_on(["keep"], scripted_faults({2: fault})))
    await store.insert([a_job()], NOW)
    (leased,) = await store.lease(lease_request(), NOW)
    held = [HeldLease(leased.id, leased.last_token)]
    keeper = store.make_keeper()

    def extend() -> list[bool]:
        return keeper.extend(held, NOW + MINUTE, NOW)

    assert await asyncio.to_thread(extend) == [True]
    with pytest.raises(StoreUnavailableError, match=r"\(keep\) fails on its way"):
        await asyncio.to_thread(extend)
    assert await asyncio.to_thread(extend) == [True]
    keeper.close()


async def test_a_wake_up_that_is_struck_is_lost() -> None:
    store, _ = struck(faults_on(["wake"], scripted_faults({1: Fault(Failure.BEFORE)})))
    async with store.listen() as listener:
        await store.insert([a_job()], NOW)
        waiting = asyncio.create_task(listener.wait())
        await turn_a_few_times()
        assert not waiting.done()
        await store.insert([a_job()], NOW)
        await waiting


async def test_faults_on_verbs_count_only_those() -> None:
    faults = faults_on(["apply", "lease"], scripted_faults({2: Fault(Failure.LOST)}))
    verbs = ["insert", "apply", "insert", "lease", "apply"]
    struck_verbs = [
        verb for number, verb in enumerate(verbs, 1) if faults(StoreCall(number, verb)) is not None
    ]
    assert struck_verbs == ["lease"]


class StoreWithClock(MemoryStore):
    async def read_clock(self) -> datetime | None:
        return START


async def test_the_clock_of_the_other_store_is_read_unless_struck() -> None:
    faults = scripted_faults({2: Fault(Failure.BEFORE)})
    store = FaultyStore(StoreWithClock(), VirtualClock(START), faults)
    assert await store.read_clock() == START
    with pytest.raises(StoreUnavailableError, match=r"\(read_clock\)"):
        await store.read_clock()


class TestDocumentsWithoutFaults(StoreContract):
    """A store that is never struck is as good as the other one."""

    @pytest.fixture
    def store_factory(self) -> StoreFactory:
        async def open_empty() -> FaultyStore:
            return struck(scripted_faults({}))[0]

        return open_empty


class TestJobsWithoutFaults(JobStoreContract):
    @pytest.fixture
    def job_store_factory(self) -> JobStoreFactory:
        async def open_empty() -> FaultyStore:
            return struck(scripted_faults({}))[0]

        return open_empty


async def turn_a_few_times() -> None:
    for _ in range(5):
        await turn()
