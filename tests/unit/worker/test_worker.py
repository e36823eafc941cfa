"""The worker as its users meet it."""

import asyncio
import os

import pytest
from tests.unit.worker.workshop import MINUTE, SECOND, Workshop, succeed

from rota.errors import InvalidInputError, StoreUnavailableError, WorkerBusyError, WorkerForkedError
from rota.events import JobStarted
from rota.fleet.identity import make_process_name
from rota.jobs import JobStatus
from rota.worker import Context, Snooze, StopManner, Worker, WorkerSettings


async def test_handlers_are_given_or_declared(shop: Workshop) -> None:
    ran: list[tuple[str, str]] = []

    async def given(context: Context) -> None:
        ran.append(("given", context.job.kind))

    worker = shop.make_worker({"given": given})

    @worker.handler("declared", notifies=True, timeout=MINUTE)
    async def declared(context: Context) -> None:
        ran.append(("declared", context.job.kind))

    jobs = [await shop.add("given"), await shop.add("declared")]
    await worker.run_once()
    assert {(await shop.look(job)).status for job in jobs} == {JobStatus.COMPLETED}
    assert sorted(ran) == [("declared", "declared"), ("given", "given")]
    assert declared.__name__ == "declared"


def test_a_worker_names_the_kinds_that_it_has_handlers_for(shop: Workshop) -> None:
    worker = shop.make_worker({"given": succeed})
    before = worker.kinds
    worker.handler("declared")(succeed)
    assert (sorted(before), sorted(worker.kinds)) == (["given"], ["declared", "given"])


def test_a_second_handler_for_a_kind_is_refused(shop: Workshop) -> None:
    worker = shop.make_worker({"kind": succeed})
    with pytest.raises(InvalidInputError, match="has a handler already"):
        worker.handler("kind")(succeed)


async def test_run_once_takes_a_batch_and_says_what_became_of_it(shop: Workshop) -> None:
    async def snooze(_: Context) -> Snooze:
        return Snooze(MINUTE)

    worker = shop.make_worker({"work": succeed, "snooze": snooze}, WorkerSettings(batch=3))
    await shop.add_many(2)
    await shop.add("snooze")
    await shop.add()
    settled = await worker.run_once()
    assert [it.job.status for it in settled] == [
        JobStatus.COMPLETED,
        JobStatus.COMPLETED,
        JobStatus.READY,
    ]
    assert len(await worker.run_once()) == 1
    assert await worker.run_once() == []


async def test_run_once_says_that_the_store_is_away(shop: Workshop) -> None:
    async def be_away() -> None:
        raise StoreUnavailableError("away")

    shop.hooked.before["lease"] = be_away
    with pytest.raises(StoreUnavailableError):
        await shop.worker.run_once()
    del shop.hooked.before["lease"]
    assert await shop.worker.run_once() == []


async def test_a_worker_runs_once_at_a_time(shop: Workshop) -> None:
    shop.start()
    await shop.pass_time(SECOND)
    assert shop.worker.is_running
    assert "running" in repr(shop.worker)
    with pytest.raises(WorkerBusyError):
        await shop.worker.run()
    with pytest.raises(WorkerBusyError):
        await shop.worker.run_once()
    await shop.finish()
    assert not shop.worker.is_running


async def test_a_worker_that_stopped_may_run_again(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    for _ in range(2):
        job = await shop.add()
        shop.start()
        await shop.pass_time(SECOND)
        assert (await shop.finish()).manner is StopManner.FINISHED
        assert (await shop.look(job)).status is JobStatus.COMPLETED


def test_a_stop_without_a_run_is_nothing(shop: Workshop) -> None:
    shop.worker.stop()
    assert "idle" in repr(shop.worker)


async def test_a_run_that_has_not_begun_is_stopped(shop: Workshop) -> None:
    worker = shop.make_worker({"work": succeed})
    job = await shop.add()
    running = asyncio.create_task(worker.run())
    worker.stop()
    assert (await running).manner is StopManner.FINISHED
    assert (await shop.look(job)).status is JobStatus.READY


async def test_a_run_stopped_twice_before_it_began_ends_at_once(shop: Workshop) -> None:
    running = asyncio.create_task(shop.worker.run())
    shop.worker.stop()
    shop.worker.stop()
    assert (await running).manner is StopManner.AT_ONCE


async def test_a_batch_that_has_not_begun_is_not_leased_after_a_stop(shop: Workshop) -> None:
    worker = shop.make_worker({"work": succeed})
    job = await shop.add()
    running = asyncio.create_task(worker.run_once())
    worker.stop()
    assert await running == []
    assert (await shop.look(job)).status is JobStatus.READY
    assert not worker.is_running


async def test_a_stop_concerns_no_run_that_is_called_later(shop: Workshop) -> None:
    worker = shop.make_worker({"work": succeed})
    job = await shop.add()
    cancelled = asyncio.create_task(worker.run())
    worker.stop()
    cancelled.cancel()  # before it has begun: nothing of it may linger
    await asyncio.wait({cancelled})
    assert len(await worker.run_once()) == 1
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_a_worker_of_another_process_refuses_to_work(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_in = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: made_in + 1)
    with pytest.raises(WorkerForkedError, match="fork") as caught:
        await shop.worker.run()
    assert caught.value.details == {"madeIn": made_in, "usedIn": made_in + 1}
    with pytest.raises(WorkerForkedError):
        await shop.worker.run_once()
    with pytest.raises(WorkerForkedError):
        shop.worker.stop()


def test_an_owner_names_host_and_process_and_is_never_the_same() -> None:
    owners = {make_process_name() for _ in range(50)}
    assert len(owners) == 50
    assert all(f":{os.getpid()}:" in owner and len(owner) <= 100 for owner in owners)


async def test_the_store_shows_who_holds_a_job(shop: Workshop) -> None:
    seen: list[str] = []

    async def look(context: Context) -> None:
        assert context.job.lease is not None
        seen.append(context.job.lease.worker)

    worker = shop.make_worker({"work": look})
    await shop.add()
    await worker.run_once()
    assert seen == [worker.name]


async def test_an_unsubscribed_listener_hears_no_more(shop: Workshop) -> None:
    heard: list[object] = []
    worker = Worker(shop.store, {"work": succeed}, clock=shop.clock)
    end = worker.events.subscribe(heard.append)
    await shop.add()
    await worker.run_once()
    assert [it for it in heard if isinstance(it, JobStarted)]
    end()
    heard.clear()
    await shop.add()
    await worker.run_once()
    assert heard == []
