"""Idle workers on a real Redis server are given jobs as they are inserted, and lose none."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
import redis
from tests.process.fleet import ROOT
from tests.servers.redis import RedisServer
from tests.servers.redis_proxy import RedisProxy

from rota.clock.system import SystemClock
from rota.jobs import Job, JobId, JobRequest, JobStatus, admit_job, make_job_ids
from rota.policy.gates import OPEN, Closed, Verdict
from rota.policy.limits import Limit
from rota.policy.watch import LimitWatch
from rota.rail.settings import set_limit
from rota.stores.protocol import LeaseRequest
from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from rota.worker import Context, StopReport, Worker, WorkerSettings

pytestmark = pytest.mark.process

PATIENCE = 60.0
SECOND = timedelta(seconds=1)
IDLE = timedelta(hours=1)
"""A worker that polls so seldom is given a job, woken for it, or the test fails."""
PARKED = "{rota}:parked?*"


class Noted:
    """A store that notes which jobs its worker has leased, and which it was given."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.leased: list[JobId] = []
        self.given: list[JobId] = []
        self.lost_count = 0
        lease, park = store.lease, store.park

        async def noted_lease(request: LeaseRequest, now: datetime) -> list[Job]:
            jobs = await lease(request, now)
            self.leased += [job.id for job in jobs]
            return jobs

        async def noted_park(
            request: LeaseRequest, now: datetime, receive: Callable[[Job | None], None]
        ) -> Any:
            def note(job: Job | None) -> None:
                self.lost_count += job is None
                self.given += [] if job is None else [job.id]
                receive(job)

            return await park(request, now, note)

        store.lease, store.park = noted_lease, noted_park  # type: ignore[method-assign] # of this one


class Works:
    """A worker on a store of its own, and the jobs that it has run."""

    def __init__(self, noted: Noted, settings: WorkerSettings) -> None:
        self.noted = noted
        self.ran: list[JobId] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._news = asyncio.Event()
        self.worker = Worker(noted.store, settings=settings)
        self.worker.handler("work")(self._work)

    async def _work(self, context: Context) -> None:
        self.ran.append(context.job.id)
        self._news.set()
        await self.go_on.wait()

    async def has_run(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.ran) < count:
                self._news.clear()
                await self._news.wait()


def settings_with(**fields: Any) -> WorkerSettings:
    return WorkerSettings(**{"poll_for": IDLE, "concurrency": 4, **fields})


def new_job(chance: Random, **fields: Any) -> Job:
    now = SystemClock().now()
    request = JobRequest(name="work", queue="work", kind="work", **fields)
    return admit_job(request, job_id=make_job_ids(now, chance.getrandbits(62), 1)[0], now=now)


async def insert(store: RedisStore, chance: Random, **fields: Any) -> Job:
    job = new_job(chance, **fields)
    await store.insert([job], SystemClock().now())
    return job


@asynccontextmanager
async def working(address: str, **fields: Any) -> AsyncIterator[Works]:
    async with await RedisStore.open(read_address(address)) as store:
        limits = LimitWatch(store, refresh_for=SECOND / 1000)  # read again for each job
        works = Works(Noted(store), settings_with(limits=limits, **fields))
        run = asyncio.create_task(works.worker.run())
        try:
            yield works
        finally:
            works.go_on.set()
            works.worker.stop()
            await asyncio.wait_for(run, PATIENCE)


async def until(has_happened: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await has_happened():
            await asyncio.to_thread(os.sched_yield)


async def parked(server: RedisServer, count: int = 1) -> None:
    """Return when so many workers are parked, each with the same request for a moment."""
    looks: list[set[bytes]] = []
    with redis.Redis.from_url(server.url) as client:

        async def are_parked() -> bool:
            looks.append(set(await asyncio.to_thread(client.pubsub_channels, PARKED)))
            return len(looks[-1]) == count and looks[-20:] == [looks[-1]] * 20

        await until(are_parked)


async def ended(store: RedisStore, *jobs: Job) -> list[Job]:
    """The jobs, once all of them have ended."""
    ids, kept = [job.id for job in jobs], dict[JobId, Job]()

    async def have_ended() -> bool:
        kept.update(await store.get("default", ids))
        return {job.status for job in kept.values()} == {JobStatus.COMPLETED}

    await until(have_ended)
    return [kept[each] for each in ids]


@pytest.fixture
async def client(own_redis: RedisServer) -> AsyncIterator[RedisStore]:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        yield store


@pytest.fixture
async def proxy(own_redis: RedisServer) -> AsyncIterator[RedisProxy]:
    made = RedisProxy(f"{own_redis.folder}/socket")
    async with made.open():
        yield made


async def test_an_idle_worker_is_given_job_after_job_without_a_lease(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance = Random(1)
    async with working(own_redis.url) as works:
        jobs = []
        for count in range(1, 21):
            await parked(own_redis)
            jobs.append(await insert(client, chance))
            await works.has_run(count)
        assert works.noted.given == [job.id for job in jobs]
        assert works.noted.leased == []
        for job in await ended(client, *jobs):
            assert (job.attempt_count, job.loss_count) == (0, 0)


async def test_a_worker_is_parked_only_while_it_runs_nothing(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance = Random(3)
    async with working(own_redis.url, concurrency=10) as works:
        await parked(own_redis)
        works.go_on.clear()
        first = await insert(client, chance)
        await works.has_run(1)
        await parked(own_redis, 0)
        second = await insert(client, chance)  # the handler may block the event loop
        await works.has_run(2)
        assert (works.noted.given, works.noted.leased) == ([first.id], [second.id])
        works.go_on.set()
        await ended(client, first, second)
        await parked(own_redis)


async def test_a_full_worker_is_given_no_more(own_redis: RedisServer, client: RedisStore) -> None:
    chance = Random(2)
    async with working(own_redis.url, concurrency=2) as works:
        await parked(own_redis)
        works.go_on.clear()
        first = [await insert(client, chance) for _ in range(2)]
        await works.has_run(2)
        await parked(own_redis, 0)
        waiting = await insert(client, chance)
        kept = await client.get("default", [waiting.id])
        assert kept[waiting.id].status is JobStatus.READY
        works.go_on.set()
        await ended(client, *first, waiting)
        assert waiting.id in works.noted.leased


async def test_a_worker_under_limits_is_not_parked(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance = Random(3)
    async with working(own_redis.url) as works:
        await parked(own_redis)
        await set_limit(client, Limit(queue="work", running=0))
        job = await insert(client, chance)

        async def is_back() -> bool:
            return works.noted.given == [job.id] and not works.noted.store._notices.parking._parked

        await until(is_back)
        await parked(own_redis, 0)
        (kept,) = (await client.get("default", [job.id])).values()
        assert works.ran == []
        assert (kept.attempt_count, kept.loss_count) == (0, 0)


async def test_a_job_that_was_given_and_did_not_arrive_is_handed_back_unspent(
    own_redis: RedisServer, client: RedisStore, proxy: RedisProxy
) -> None:
    """Its connection is lost in that moment; the rescuer of the same worker finds it."""
    chance = Random(4)
    async with working(proxy.url, lease_for=4 * SECOND) as works:
        await parked(own_redis)
        proxy.loses_answers = True
        job = await insert(client, chance)
        assert (await client.get("default", [job.id]))[job.id].status is JobStatus.RUNNING
        proxy.heal()
        (kept,) = await ended(client, job)
        assert (kept.attempt_count, kept.loss_count) == (0, 0)
        assert works.ran == [job.id]
        assert works.noted.given == []
        assert works.noted.lost_count > 0


async def test_connections_are_cut_again_and_again_and_each_job_runs_once(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance, jobs = Random(5), list[Job]()
    async with (
        working(own_redis.url, lease_for=4 * SECOND) as works,
        working(own_redis.url, lease_for=4 * SECOND) as others,
    ):
        with redis.Redis.from_url(own_redis.url) as operator:
            for _ in range(15):
                jobs += [await insert(client, chance) for _ in range(chance.randrange(5))]
                operator.client_kill_filter(_type="pubsub")
                jobs.append(await insert(client, chance))
        kept = await ended(client, *jobs)
    assert sorted(works.ran + others.ran) == sorted(job.id for job in jobs)
    assert {(job.attempt_count, job.loss_count) for job in kept} == {(0, 0)}


async def test_workers_stop_while_jobs_come_and_none_is_lost(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance, jobs, ran = Random(6), list[Job](), list[JobId]()
    given = 0
    for _ in range(15):
        async with working(own_redis.url) as works:
            await parked(own_redis)
            some = [new_job(chance) for _ in range(6)]
            now = SystemClock().now()
            inserting = [asyncio.ensure_future(client.insert([job], now)) for job in some[1:]]
            await client.insert(some[:1], now)
            await asyncio.wait(inserting, timeout=chance.choice([0, 0.0005, 0.002, 0.01]))
        await asyncio.gather(*inserting)
        jobs, ran, given = jobs + some, ran + works.ran, given + len(works.noted.given)
    async with working(own_redis.url) as works:
        kept = await ended(client, *jobs)
    ran += works.ran
    assert sorted(ran) == sorted(job.id for job in jobs)
    assert {(job.attempt_count, job.loss_count) for job in kept} == {(0, 0)}
    assert given


async def test_a_server_that_is_killed_and_started_again_loses_no_job(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance, jobs = Random(7), list[Job]()
    async with working(own_redis.url, lease_for=4 * SECOND) as works:
        for _ in range(3):
            await parked(own_redis)
            jobs += [await insert(client, chance) for _ in range(3)]
            await asyncio.to_thread(own_redis.kill)
            await asyncio.to_thread(own_redis.start)
        await ended(client, *jobs)
        assert {*works.ran} == {job.id for job in jobs}


_PROGRAM = """
import asyncio, sys
from tests.process.worker.test_parked_workers import Noted, Works, settings_with
from rota.stores.redis.address import read_address
from rota.stores.redis.store import RedisStore
from datetime import timedelta

async def main():
    async with await RedisStore.open(read_address(sys.argv[1])) as store:
        works = Works(Noted(store), settings_with(lease_for=timedelta(seconds=2)))
        works.go_on.clear()  # a job that it has begun never ends
        await works.worker.run()

asyncio.run(main())
"""


@asynccontextmanager
async def another_process(server: RedisServer) -> AsyncIterator[Process]:
    """A parked worker in a process of its own."""
    program = (sys.executable, "-c", _PROGRAM, server.url)
    process = await asyncio.create_subprocess_exec(*program, cwd=ROOT)
    try:
        await parked(server)
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_a_parked_worker_that_is_killed_is_given_nothing_more(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance = Random(8)
    async with another_process(own_redis) as process:
        process.send_signal(signal.SIGKILL)
        await parked(own_redis, 0)
        job = await insert(client, chance)
        async with working(own_redis.url):
            (kept,) = await ended(client, job)
        assert (kept.attempt_count, kept.loss_count) == (0, 0)


async def test_a_worker_that_is_killed_with_a_job_it_was_given_loses_that_attempt_only(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance = Random(9)
    async with another_process(own_redis) as process:
        process.send_signal(signal.SIGSTOP)  # it is parked, and hears nothing
        job = await insert(client, chance)
        assert (await client.get("default", [job.id]))[job.id].status is JobStatus.RUNNING
        process.send_signal(signal.SIGKILL)
        async with working(own_redis.url, lease_for=2 * SECOND) as works:
            (kept,) = await ended(client, job)
        assert works.ran == [job.id]
        first, last = await client.attempts("default", kept.id)
        assert (first.worker == works.worker.name, last.worker == works.worker.name) == (
            False,
            True,
        )


async def test_a_stopped_worker_reports_that_it_finished(own_redis: RedisServer) -> None:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        works = Works(Noted(store), settings_with())
        run = asyncio.create_task(works.worker.run())
        await parked(own_redis)
        works.worker.stop()
        report: StopReport = await asyncio.wait_for(run, PATIENCE)
    assert (report.manner.value, report.unwritten_count) == ("finished", 0)


class _Door:
    """A gate whose state is elsewhere."""

    def __init__(self) -> None:
        self.is_shut = False
        self._was_shut = False
        self.error: Exception | None = None

    async def refresh(self, now: datetime) -> None:  # noqa: ARG002 - as gates have it
        if self.error is not None:
            raise self.error
        self._was_shut = self.is_shut

    def judge(
        self,
        job: Job,  # noqa: ARG002 - as gates have it
        now: datetime,
        *,
        notifies: bool,  # noqa: ARG002 - as gates have it
    ) -> Verdict:
        return Closed(now + IDLE, "shut") if self._was_shut else OPEN


async def test_a_gate_reads_its_state_before_a_job_that_was_given_starts(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance, door = Random(10), _Door()
    async with working(own_redis.url, gate=door) as works:
        await parked(own_redis)
        await insert(client, chance)
        await works.has_run(1)
        await parked(own_redis)
        door.is_shut = True
        job = await insert(client, chance)

        async def is_put_off() -> bool:
            (kept,) = (await client.get("default", [job.id])).values()
            return kept.status is JobStatus.READY and kept.due_at > job.due_at

        await until(is_put_off)
        assert len(works.ran) == 1


async def test_a_gate_that_breaks_stops_the_worker_and_keeps_no_job(
    own_redis: RedisServer, client: RedisStore
) -> None:
    chance, door = Random(11), _Door()

    async def break_the_gate() -> None:
        async with working(own_redis.url, gate=door):
            await parked(own_redis)
            door.error = ZeroDivisionError()
            job = await insert(client, chance)

            async def is_back() -> bool:
                (kept,) = (await client.get("default", [job.id])).values()
                return kept.status is JobStatus.READY and kept.last_token == 1

            await until(is_back)

    with pytest.raises(ZeroDivisionError):
        await break_the_gate()


async def kept_of(store: RedisStore, jobs: Sequence[Job]) -> list[Job]:
    kept = await store.get("default", [job.id for job in jobs])
    return [kept[job.id] for job in jobs]
