"""The two calls of specification 3 and the job they make, one sentence at a time."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota import open_store
from rota.errors import InvalidJobError
from rota.jobs import Job
from rota.rail import Rail
from rota.runtime.configuration import read_configuration
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.worker import Context, Worker

HOUR = timedelta(hours=1)
AT_NOON = "FREQ=DAILY;BYHOUR=12;BYMINUTE=0;BYSECOND=0"


@pytest.fixture
async def shop(store_url: str) -> AsyncIterator[Workshop]:
    """A workshop on every store."""
    async with await open_store(store_url) as store:
        made = Workshop(store)
        yield made
        await made.close()


@pytest.fixture
async def quick() -> AsyncIterator[Workshop]:
    """A workshop in memory."""
    made = Workshop()
    yield made
    await made.close()


async def test_modules_share_one_rail_and_one_worker(quick: Workshop) -> None:
    """Neither module knows of the other: each declares its handlers and schedules its work."""
    quick.store = MemoryStore()  # which a worker need not poll
    done: list[tuple[str, datetime]] = []

    def declare(worker: Worker, kind: str) -> None:
        @worker.handler(kind)
        async def work(context: Context) -> None:
            done.append((context.job.kind, context.now))

    worker = quick.make_worker({})
    declare(worker, "events.remind")
    declare(worker, "digests.send")
    rail = Rail(quick.store, "guild-7", clock=quick.clock)
    await rail.schedule_once("events.remind", {"eventId": 1}, run_at=NOW + HOUR)
    await rail.schedule_recurring("digests.send", {}, interval="2h", start_from=NOW + 2 * HOUR)
    quick.start()
    await quick.pass_time(5 * HOUR)
    assert done == [
        ("events.remind", NOW + HOUR),
        ("digests.send", NOW + 2 * HOUR),
        ("digests.send", NOW + 4 * HOUR),
    ]


async def test_a_job_of_priority_one_is_leased_first_and_one_of_five_last(shop: Workshop) -> None:
    rail = Rail(shop.store, clock=shop.clock)
    for priority in (4, 1, 5, 3, 2):
        await rail.schedule_once("work", {}, run_at=NOW, priority=priority)
    request = LeaseRequest(worker="w", limit=1, lease_for=MINUTE)
    leased = [job for _ in range(5) for job in await shop.store.lease(request, NOW)]
    assert [(await rail.get(job.id)).priority for job in leased] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (None, NOW),
        (NOW, NOW),
        (NOW + SECOND, NOW + timedelta(days=1)),
        ("2026-05-03T12:00:00Z", datetime(2026, 5, 3, 12, tzinfo=UTC)),
    ],
)
async def test_the_first_occurrence_is_at_or_after_the_start(
    quick: Workshop, start: Any, first: datetime
) -> None:
    rail = Rail(quick.store, clock=quick.clock)
    job_id = await rail.schedule_recurring("work", {}, rrule=AT_NOON, tz="UTC", start_from=start)
    assert (await rail.get(job_id)).run_at == first


async def test_a_series_has_priority_three_and_a_payload_of_at_most_64_kib(
    quick: Workshop,
) -> None:
    rail = Rail(quick.store, clock=quick.clock)
    job_id = await rail.schedule_recurring("work", {}, interval="1h")
    assert (await rail.get(job_id)).priority == 3
    with pytest.raises(InvalidJobError, match="payload must not be larger than 65536 bytes"):
        await rail.schedule_recurring("work", {"x": "y" * 65_536}, interval="1h")
    assert len((await rail.list()).items) == 1


async def test_the_environment_reaches_the_leases_and_polls_of_a_worker(
    quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, timedelta]] = []
    lease = quick.hooked.lease

    async def note(request: LeaseRequest, now: datetime) -> list[Job]:
        asked.append((request.limit, request.lease_for))
        return await lease(request, now)

    monkeypatch.setattr(quick.hooked, "lease", note)
    environ = {"WORKER_BATCH": "3", "WORKER_LEASE_MS": "7000", "WORKER_POLL_MS": "5000"}
    quick.make_worker({"work": succeed}, read_configuration(environ).worker)
    quick.start()
    await quick.pass_time(MINUTE)
    assert set(asked) == {(3, 7 * SECOND)}
    assert 12 <= len(asked) <= 16  # polls may come a fifth early


async def test_the_time_of_each_start_and_end_is_kept_with_the_job(shop: Workshop) -> None:
    async def take_two_seconds(_: Context) -> None:
        await shop.clock.sleep(2 * SECOND)

    shop.make_worker({"work": take_two_seconds})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    running = await shop.look(job)
    assert running.lease is not None
    assert running.lease.taken_at == NOW
    await shop.pass_time(2 * SECOND)
    done = await shop.look(job)
    assert done.completion is not None
    assert (done.completion.started_at, done.completion.ended_at) == (NOW, NOW + 2 * SECOND)
    assert done.updated_at == NOW + 2 * SECOND
