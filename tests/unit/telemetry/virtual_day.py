"""A day of each deployment under virtual time, as Prometheus would have scraped it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from rota.jobs import Succeeded
from rota.ops.leases import HttpLeaseRequest, HttpLeases, Settlement
from rota.rail import Rail
from rota.runtime.watch import Watch
from rota.scheduler import Scheduler, Watched
from rota.server.http.metrics import ServerMetrics
from rota.stores.memory import MemoryStore
from rota.stores.protocol import HeldLease
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock
from rota.worker import Context, Worker, WorkerSettings

START = datetime(1970, 1, 1, tzinfo=UTC)
"""Where the time of promtool begins."""

SCRAPED_EVERY = timedelta(minutes=4)
DAY = timedelta(hours=24)
MINUTE = timedelta(minutes=1)

Labels = tuple[tuple[str, str], ...]
Scrape = dict[tuple[str, Labels], float]


class Stage(NamedTuple):
    """What the parts of a deployment share."""

    store: MemoryStore
    clock: VirtualClock
    metrics: ServerMetrics
    stack: AsyncExitStack

    def run(self, loop: Coroutine[Any, Any, Any]) -> None:
        """Run a loop until the stage ends."""
        task = asyncio.create_task(loop)

        async def end() -> None:
            task.cancel()
            await asyncio.wait({task})

        self.stack.push_async_callback(end)


async def work_in_here(stage: Stage) -> None:
    """``rota up`` and an embedded app: a worker beside the pages."""
    worker = make_worker(stage)
    stage.metrics.follow(worker.events)


async def work_elsewhere(stage: Stage) -> None:
    """``rota serve`` and ``rota work``."""
    worker, stats = make_worker(stage), StatsRecorder(stage.store, stage.clock)
    stats.follow(worker.events)
    stage.run(stats.run())
    stage.run(Watch(stage.store, stage.clock).run())


async def work_over_http(stage: Stage) -> None:
    """``rota serve`` and a worker over HTTP."""
    leases = HttpLeases(stage.store, stage.clock, Random(3))
    stage.metrics.follow(leases.events)
    request = HttpLeaseRequest(worker="far away", limit=10)

    async def work() -> None:
        while True:
            for job in await leases.lease("default", request):
                held = HeldLease(job.id, job.last_token)
                done = Settlement(held=held, outcome=Succeeded())
                await leases.settle("default", request.worker, [done])
            await stage.clock.sleep(timedelta(seconds=30))

    stage.run(work())


async def schedule_tasks(stage: Stage) -> None:
    async def beat() -> None:
        """Its start is enough."""

    scheduler = Scheduler(stage.store, clock=stage.clock, zone=UTC)
    watched = Watched(beat, 5 * MINUTE)
    await scheduler.initialize([("heartbeat", "0,10,20,30,40,50 * * * *", watched, MINUTE)])
    stage.stack.push_async_callback(scheduler.stop)


def make_worker(stage: Stage) -> Worker:
    tried: set[str] = set()

    async def back_up(context: Context) -> None:
        if context.attempt == 1 and not len(tried) % 5:
            tried.add(context.job.id)
            raise OSError("a failure that passes")
        tried.add(context.job.id)

    settings = WorkerSettings(poll_for=timedelta(hours=1))
    worker = Worker(stage.store, {"backup": back_up}, clock=stage.clock, settings=settings)
    stage.run(worker.run())
    return worker


DEPLOYMENTS: dict[str, tuple[Callable[[Stage], Coroutine[Any, Any, None]], ...]] = {
    "up": (work_in_here, schedule_tasks),
    "serve and work": (work_elsewhere, schedule_tasks),
    "serve and a worker over HTTP": (work_over_http,),
    "embedded app": (work_in_here,),
}


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    clock = VirtualClock(START)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(MemoryStore())
        stats = StatsRecorder(store, clock)
        stage = Stage(store, clock, ServerMetrics(store, clock, stats=stats), stack)
        stage.run(stats.run())
        stage.run(Watch(store, clock).run())
        yield stage


async def scrape_day(deployment: str, length: timedelta = DAY) -> list[Scrape]:
    """What the server showed every few minutes."""
    scrapes: list[Scrape] = []
    async with open_stage() as stage:
        for begin in DEPLOYMENTS[deployment]:
            await begin(stage)
        rail = Rail(stage.store, clock=stage.clock, draw_bits=Random(4).getrandbits)
        await rail.schedule_recurring("backup", {}, interval="20m", alert_after="10m")
        while stage.clock.now() - START < length:
            await stage.clock.advance(SCRAPED_EVERY)
            scrapes.append(await scrape(stage))
    return scrapes


async def scrape(stage: Stage, *, has_buckets: bool = False) -> Scrape:
    lines = (await stage.metrics.show(stage.clock.now())).decode().splitlines(keepends=True)
    text = "".join(it for it in lines if has_buckets or "_bucket{" not in it)  # most of them
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("rota_")
    }
