"""``listen``: whoever has nothing to do is told when there may be something."""

import asyncio

import pytest

from rota.errors import InvalidInputError, StoreClosedError
from rota.jobs import Interrupted, Recurrence
from rota.stores.protocol import JobStore, Listener
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    NOW,
    JobStoreFixture,
    end,
    expect_true,
    take,
)

SOON = 10.0
"""Seconds of real time after which a wake-up that should have come is missed."""


class WakingContract(JobStoreFixture):
    """A wake-up may come without cause, but none is lost."""

    async def test_an_insert_wakes_a_listener(self, jobs: JobStore) -> None:
        async with jobs.listen() as listener:
            waiting = asyncio.create_task(listener.wait())
            await asyncio.wait([waiting], timeout=0)
            await jobs.insert([a_job()], NOW)
            await _heard(waiting)

    async def test_what_happens_before_one_waits_is_not_missed(self, jobs: JobStore) -> None:
        async with jobs.listen(queues=["mail"], tenants=["a", "b"]) as listener:
            await jobs.insert([a_job(queue="mail", tenant="b")], NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_everything_that_makes_a_job_ready_wakes(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id], due_at=NOW + DAY)
        async with jobs.listen() as listener:
            await jobs.insert([parent, child], NOW)
            await _hear_all(listener)
            (leased,) = await take(jobs)
            await end(jobs, leased, Interrupted())
            await _heard(asyncio.create_task(listener.wait()))
            (leased,) = await take(jobs)
            await _hear_all(listener)
            await end(jobs, leased)
            await _heard(asyncio.create_task(listener.wait()))
            await jobs.amend("default", child.id, {"due_at": NOW}, NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_the_next_job_of_a_series_wakes(self, jobs: JobStore) -> None:
        hourly = Recurrence(interval="1h", start=NOW)
        await jobs.insert([a_job(recurrence=hourly, occurrence_at=NOW)], NOW)
        (leased,) = await take(jobs)
        async with jobs.listen() as listener:
            await end(jobs, leased)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_every_listener_is_woken(self, jobs: JobStore) -> None:
        async with jobs.listen() as one, jobs.listen() as other:
            await jobs.insert([a_job()], NOW)
            await _heard(asyncio.create_task(one.wait()))
            await _heard(asyncio.create_task(other.wait()))

    async def test_a_cancelled_wait_loses_nothing(self, jobs: JobStore) -> None:
        async with jobs.listen() as listener:
            waiting = asyncio.create_task(listener.wait())
            await asyncio.wait([waiting], timeout=0)
            waiting.cancel()
            await asyncio.wait([waiting])
            await jobs.insert([a_job()], NOW)
            await _heard(asyncio.create_task(listener.wait()))

    async def test_closing_the_store_ends_the_waiting(self, jobs: JobStore) -> None:
        async with jobs.listen() as listener:
            waiting = asyncio.create_task(listener.wait())
            await asyncio.wait([waiting], timeout=0)
            await jobs.close()
            await asyncio.wait([waiting], timeout=SOON)
            with pytest.raises(StoreClosedError):
                await waiting

    async def test_a_single_name_is_not_taken_for_several(self, jobs: JobStore) -> None:
        with pytest.raises(InvalidInputError, match="queues"):
            await jobs.listen(queues="mail").__aenter__()
        with pytest.raises(InvalidInputError, match="tenants"):
            await jobs.next_due_at(NOW, tenants="acme")


async def _heard(waiting: "asyncio.Task[None]") -> None:
    done, _ = await asyncio.wait([waiting], timeout=SOON)
    waiting.cancel()
    expect_true(bool(done), "nobody was woken")
    await waiting


async def _hear_all(listener: Listener) -> None:
    """Take in what may have been heard so far."""
    waiting = asyncio.create_task(listener.wait())
    await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
