"""Plays the plan of a fleet, and writes down everything that is seen of it."""

import asyncio
import logging
from asyncio import Task
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.verification.fleet.hosts import Host, HostClock, SharedClock, start_outside
from tests.verification.fleet.link import CALM, Link
from tests.verification.fleet.plan import START, Deed, FleetPlan
from tests.verification.fleet.processes import (
    NARROW,
    SHUT,
    TENANT,
    Happenings,
    ProcessContext,
    run_client,
    run_http_worker,
    run_poller,
    run_scheduler,
    run_worker,
)
from tests.verification.fleet.server import Operation, StoreServer
from tests.verification.jobs_trace import JobEntry, RecordingStore, Scribe, Snapshot, take_snapshot
from tests.verification.jobs_trace.records import Crashed

from rota.clock.virtual import VirtualClock
from rota.errors import RotaError
from rota.policy.gate_settings import Scope
from rota.policy.limits import Limit
from rota.rail.settings import clear_maintenance, resume_queue, set_limit

_SECOND = timedelta(seconds=1)
_RUNS: dict[str, Callable[[ProcessContext], Coroutine[Any, Any, None]]] = {
    "worker": run_worker,
    "scheduler": run_scheduler,
    "poller": run_poller,
    "http": run_http_worker,
}
STEP = 4 * _SECOND
SCHEDULER_AWAY_FOR = 20 * _SECOND
"""A dead scheduler stays away for longer than others, so that its peers have to act."""
SCHEDULERS_SEEN_FOR = 45 * _SECOND
"""After the last fault, so that a start that never comes is seen to be late."""


class LiveScribe(Scribe):
    """Writes nothing down for a process that is dead."""

    def __init__(self, time: VirtualClock, sink: Callable[[JobEntry], object], host: Host) -> None:
        super().__init__(time, sink, host.name)
        self._host = host

    def write(self, kind: Any, **fields: Any) -> None:
        if self._host.is_alive:
            super().write(kind, **fields)


@dataclass(slots=True)
class Post:
    """A process that is started again whenever it has ended."""

    role: str
    number: int
    around: ProcessContext | None = None
    life: Task[None] | None = None
    start_count: int = 0


@dataclass(frozen=True, slots=True)
class Frozen:
    """When a process stood still."""

    instance: str
    since: datetime
    until: datetime


@dataclass(slots=True)
class FleetRecord:
    """All that the judge is given."""

    plan: FleetPlan
    history: list[JobEntry] = field(default_factory=list)
    seen: Happenings = field(default_factory=Happenings)
    frozen: list[Frozen] = field(default_factory=list)
    excesses: list[str] = field(default_factory=list)
    log: list[Operation] = field(default_factory=list)
    snapshot: Snapshot | None = None
    quiet_since: datetime = START
    patience: timedelta = timedelta()
    fault_count: int = 0
    lost_count: int = 0
    restart_count: int = 0
    server_findings: list[str] = field(default_factory=list)


class Stage:
    """Where a fleet lives: true time, a store, links and hosts."""

    def __init__(self, plan: FleetPlan, server: StoreServer, record: FleetRecord) -> None:
        self.time = VirtualClock(START)
        self.record = record
        self.server = server
        self._plan = plan
        self._random = Random(f"fleet {plan.seed} stage")
        self._shared_clock = SharedClock(self.time)
        self._is_quiet = False
        self._posts = [
            Post(role, number)
            for role, count in (
                ("worker", plan.counts.worker_count),
                ("scheduler", plan.counts.scheduler_count),
                ("poller", plan.counts.poller_count),
                ("http", plan.counts.http_worker_count),
            )
            for number in range(count)
        ]
        self._links: list[Link] = []
        self._director = asyncio.current_task()

    async def play(self) -> None:
        try:
            await self._open()
            await self.time.advance(self._plan.span)
            await self._calm_down()
            await self._take_stock()
        finally:
            await self._clear()

    async def _open(self) -> None:
        admin = self._settle_in("admin")
        admin.link.weather = CALM
        if self._plan.limit is not None:
            limit = Limit(queue=NARROW, running=self._plan.limit)
            await set_limit(admin.link, limit, clock=admin.host.clock)
        for post in self._posts:
            self._start(post)
        client = self._settle_in("client")
        client.host.start(run_client(client, self._plan.acts, START))
        for deed in self._plan.deeds:
            start_outside(self._carry_out(deed))

    def _settle_in(self, name: str) -> ProcessContext:
        """A host with its clock and its link, and what records its calls."""
        plan = self._plan
        random = Random(f"fleet {plan.seed} {name}")
        clock: HostClock = self._shared_clock
        if plan.drifts:
            rate, offset = 1 + random.uniform(-2e-4, 2e-4), random.uniform(-600, 600) * _SECOND
            clock = HostClock(self.time, rate, offset)
        host = Host(name, clock, self.time, random)
        link = Link(host, self.server, self.time, reads_clock=plan.drifts)
        link.weather = CALM if self._is_quiet else plan.weather
        self._links.append(link)
        scribe = LiveScribe(self.time, self.record.history.append, host)
        store = RecordingStore(link, scribe)
        return ProcessContext(plan, host, link, store, scribe, self.time, self.record.seen)

    def _start(self, post: Post) -> None:
        around = self._settle_in(f"{post.role} {post.number}.{post.start_count}")
        around.host.die = lambda: self._kill(post)
        post.start_count += 1
        post.around = around
        post.life = around.host.start(_RUNS[post.role](around))

    def _kill(self, post: Post, after: timedelta = 2 * _SECOND) -> None:
        around = post.around
        if around is None or not around.host.is_alive:
            return
        around.scribe.write(Crashed)
        if around.host.name in around.seen.schedules:
            around.seen.schedules[around.host.name].crash()
        around.host.kill()
        post.around = None
        away_for = SCHEDULER_AWAY_FOR if post.role == "scheduler" else timedelta()
        start_outside(self._start_later(post, after + away_for))

    async def _start_later(self, post: Post, after: timedelta) -> None:
        await self.time.sleep(after)
        if post.around is None:
            self._start(post)

    async def _carry_out(self, deed: Deed) -> None:
        await self.time.sleep(deed.at)
        post = self._posts[deed.victim]
        if deed.what == "fail over":
            await self._fail_over(deed.lasts)
        elif post.around is not None:
            await self._befall(deed, post, post.around)

    async def _befall(self, deed: Deed, post: Post, around: ProcessContext) -> None:
        match deed.what:
            case "kill":
                self._kill(post, deed.lasts)
            case "doom":
                around.host.doom(self._random.randint(1, 8), is_served=self._random.random() < 0.5)
            case "freeze":
                self._freeze(around, deed.lasts)
            case "cut":
                around.link.is_cut = True
                await self.time.sleep(deed.lasts)
                around.link.is_cut = False
            case "stop" if post.role == "worker" and around.host.stop is not None:
                around.host.stop()
            case "jump" if self._plan.drifts:
                around.host.clock.jump(self._random.choice((-3600, -20, 20, 3600)) * _SECOND)

    def _freeze(self, around: ProcessContext, lasts: timedelta) -> None:
        now = self.time.now()
        around.host.freeze(lasts)
        self.record.frozen.append(Frozen(around.host.name, now, now + lasts))
        if around.host.name in around.seen.schedules:
            around.seen.schedules[around.host.name].fault("freeze", lasted=lasts)

    async def _fail_over(self, lasts: timedelta) -> None:
        def go_down() -> None:
            start_outside(self._come_back(lasts))

        self.server.on_down = go_down
        await self.server.doom()

    async def _come_back(self, lasts: timedelta) -> None:
        await self.time.sleep(lasts)
        self.server.is_up = True

    async def _calm_down(self) -> None:
        """There are no more faults, and every process runs: now everything must come to its end."""
        self._is_quiet = True
        self.server.spare()
        for link in self._links:
            link.weather, link.is_cut = CALM, False
        record = self.record
        lasts = max((deed.lasts for deed in self._plan.deeds), default=_SECOND)
        record.quiet_since = self.time.now() + lasts + self._plan.weather.latest
        await self.time.advance_to(record.quiet_since)
        open_count = len(await self._open_jobs())  # by now also those that were on their way
        record.patience = (
            self._plan.lease_for * 1.5 + self._plan.poll_for + (12 + 15 * open_count) * _SECOND
        )
        await self._open_queue()
        deadline = record.quiet_since + record.patience + 70 * _SECOND
        shortest = SCHEDULERS_SEEN_FOR if self._plan.counts.scheduler_count else timedelta()
        while self.time.now() < deadline:
            self._start_ended()
            await self.time.advance(STEP)
            is_over = self.time.now() >= record.quiet_since + shortest
            if is_over and not await self._open_jobs():
                break

    async def _open_queue(self) -> None:
        """The process that paused it may have died, or may not know that it did."""
        store = self._settle_in("opener").link
        await resume_queue(store, SHUT, clock=self._shared_clock)
        await clear_maintenance(store, Scope(queue=SHUT))

    def _start_ended(self) -> None:
        for post in self._posts:
            life = post.life
            if post.around is None or (life is not None and life.done() and not _failure(life)):
                self._start(post)

    async def _open_jobs(self) -> list[Any]:
        page = await self.server.inner.find(TENANT, limit=100)
        polled = self.record.seen.polled_ids - {
            turn.job_id for turn in self.record.seen.polled if turn.is_done
        }
        return [*(job for job in page.items if not job.status.is_terminal), *polled]

    async def _take_stock(self) -> None:
        record = self.record
        record.snapshot = await take_snapshot(self.server.inner, [TENANT], self.time.now())
        record.log = self.server.log
        record.lost_count = self.server.lost_count
        record.restart_count = self.server.epoch
        record.fault_count = sum(link.fault_count for link in self._links)
        for post in self._posts:
            if post.life is not None and (error := _failure(post.life)):
                record.seen.errors.append(f"{post.role} ended with {error!r}")

    async def _clear(self) -> None:
        """Leave no task behind, whatever happened."""
        for post in self._posts:
            if post.around is not None:
                post.around.host.is_alive = False
        while others := asyncio.all_tasks() - {self._director}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        with suppress(RotaError):
            await self.server.close()


def _failure(life: "Task[None]") -> BaseException | None:
    return life.exception() if life.done() and not life.cancelled() else None


@contextmanager
def silence() -> Iterator[None]:
    """Thousands of fleets need not be logged."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
