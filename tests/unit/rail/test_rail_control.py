"""Operators and workers who want the same job at the same moment."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.rail.driving import run_due, take

from rota.errors import ConflictError, JobEndedError
from rota.jobs import Change, Job, JobStatus
from rota.rail import Rail
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Applied
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BESIDE = "01890a5d-ac96-774b-bcce-b302099a8057"


class Faster:
    """A worker that runs what is due just before somebody else's call."""

    def __init__(self, store: MemoryStore, clock: VirtualClock) -> None:
        self._store = store
        self._clock = clock
        self.run: list[Job] = []

    def get_ahead(self, verb: str) -> None:
        """Be faster than the next call of that verb."""
        call = getattr(self._store, verb)

        async def run_first(*arguments: Any) -> Any:
            setattr(self._store, verb, call)
            self.run += await run_due(self._store, self._clock.now())
            return await call(*arguments)

        setattr(self._store, verb, run_first)


async def hourly(rail: Rail, **fields: Any) -> str:
    return await rail.schedule_recurring("tick", {}, interval="1h", **fields)


async def test_a_job_that_a_worker_changes_meanwhile_is_read_again(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail)
    faster = Faster(store, clock)
    faster.get_ahead("amend")
    paused = await rail.pause(job_id)
    assert paused.series is not None
    assert paused.series.scheduled_for == NOW + HOUR
    await rail.resume(job_id)
    await clock.advance(HOUR)
    faster.get_ahead("amend")
    await rail.run_now(job_id)
    faster.get_ahead("apply")
    await rail.cancel(job_id)
    assert await store.next_due_at(NOW) is None
    assert [job.occurrence_at for job in faster.run] == [NOW + hours * HOUR for hours in range(3)]


async def test_a_single_job_that_ended_meanwhile_cannot_be_cancelled(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await rail.schedule_once("a", {}, run_at=NOW)
    Faster(store, clock).get_ahead("apply")
    with pytest.raises(JobEndedError):
        await rail.cancel(job_id)
    assert (await rail.get(job_id)).state == "done"


async def test_one_overlapping_occurrence_may_end_while_all_are_cancelled(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    job_id = await hourly(rail, overlap="allow", count=1)
    (leased,) = await take(store, NOW)
    beside = replace(
        leased, id=BESIDE, lease=None, status=JobStatus.READY, occurrence="next", due_at=NOW
    )
    await store.insert([beside], NOW)
    Faster(store, clock).get_ahead("apply")
    assert (await rail.cancel(job_id)).job_id == job_id
    assert (await rail.get(BESIDE)).state == "done"


async def test_a_resume_meets_a_job_that_runs_now(
    rail: Rail, store: MemoryStore, clock: VirtualClock
) -> None:
    """The paused occurrence is passed; while it is to be passed over, an operator has it run."""
    job_id = await hourly(rail, start_from=NOW + HOUR)
    await rail.pause(job_id)
    await clock.advance(2.5 * HOUR)
    amend = store.amend

    async def run_by_hand(*arguments: Any) -> Job:
        store.amend = amend  # type: ignore[method-assign] # as it was
        await amend("guild-7", job_id, {"due_at": NOW}, clock.now())
        await take(store, clock.now())
        return await amend(*arguments)

    store.amend = run_by_hand  # type: ignore[method-assign, assignment] # for one call
    resumed = await rail.resume(job_id)
    assert resumed.state == "processing"
    assert resumed.series is not None
    assert not resumed.series.is_paused


class Slippery(MemoryStore):
    """Whatever is to be changed has always just changed."""

    async def amend(self, tenant: str, job_id: str, *_: Any) -> Job:
        raise JobEndedError(job_id, f"COMPLETED for {tenant}")

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        assert now.tzinfo is UTC
        return [Applied(None) for _ in changes]


async def test_a_caller_that_loses_every_race_gets_an_error(clock: VirtualClock) -> None:
    async with Slippery() as store:
        rail = Rail(store, clock=clock)
        job_id = await hourly(rail)
        for verb in (rail.cancel, rail.pause, rail.run_now):
            with pytest.raises(ConflictError, match="keeps being changed by other callers"):
                await verb(job_id)
        paused = (await store.get("default", [job_id]))[job_id]
        store._tables.put(replace(paused, is_paused=True))
        with pytest.raises(ConflictError, match="keeps being changed by other callers"):
            await rail.resume(job_id)


async def test_another_series_is_not_taken_for_the_one_that_is_meant(
    rail: Rail, store: MemoryStore
) -> None:
    other = await hourly(rail, start_from=NOW + HOUR)
    job_id = await hourly(rail)
    await run_due(store, NOW)
    await rail.cancel(job_id)
    assert (await rail.get(other)).state == "queued"
