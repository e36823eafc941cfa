"""What happens to check-ins over the years: handlers fail, workers die, operators intervene.

Time in which nothing is due, runs or acts is passed over in one step; all other
time flows.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.spec.check_ins import FORTNIGHT, START, WEEK, Closure, Tenant

from rota.events import Event, JobDeferred, JobFailed, JobStalled
from rota.jobs import JobId
from rota.policy.gate_settings import EVERYTHING
from rota.policy.gates import Maintenance
from rota.rail import DeadLetters, Rail
from rota.rail.settings import plan_maintenance
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock
from rota.testing.faults import Failure, Fault, FaultyStore, StoreCall, seeded_faults
from rota.worker import Context, Worker, WorkerSettings

KIND = "mentor.checkin.ping"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FOR_EVER = timedelta(days=3650)
NOTICED_WITHIN = timedelta(seconds=3)
"""How soon workers know of a maintenance that begins."""

Act = Callable[[], Coroutine[Any, Any, object]]


class CallRefusedError(Exception):
    """Whatever a handler calls was not to be had."""


@dataclass(frozen=True)
class Sent:
    """One message, as its recipient would write it down."""

    tenant: str
    pair: str
    scheduled_for: datetime
    begun_at: datetime
    sent_at: datetime


@dataclass(frozen=True)
class Chances:
    """How often an attempt fails before or after it has sent, and how often its worker dies.

    ``is_unanswered`` is how often a call of the store fails, carried out or not.
    """

    fails_before: float = 0.2
    fails_after: float = 0.08
    dies: float = 0.03
    is_unanswered: float = 0.01


class Employee:
    """A worker that can die: from then on nothing it says reaches the store.

    Not between an effect and its record, though: what is sent then is sent twice, and no ledger can
    prevent it. ``unrecorded`` are the jobs at that moment.
    """

    def __init__(self, story: "Story", number: int) -> None:
        self.unrecorded: set[JobId] = set()
        self._story = story
        self._is_dead = False
        self._faults = seeded_faults(
            story.seed * 1_000 + number,
            fault_share=story.chances.is_unanswered,
            failures=(Failure.BEFORE, Failure.AFTER, Failure.LOST),
        )
        store = FaultyStore(story.store, story.clock, self._strike)
        settings = WorkerSettings(lease_for=MINUTE, poll_for=HOUR, concurrency=5, batch=5)
        self.worker = Worker(store, clock=story.clock, settings=settings)
        self.worker.random = Random(story.seed * 1_000 + number)
        self.worker.events.subscribe(story.note_event)
        self.worker.handler(KIND, notifies=True)(self._ping)
        self.run = asyncio.create_task(self.worker.run())

    def die(self) -> None:
        self._is_dead = True
        self.run.cancel()

    def _strike(self, call: StoreCall) -> Fault | None:
        if self._is_dead:
            return Fault(Failure.LOST)
        fault = self._faults(call)
        self._story.happened["faults"] += fault is not None
        return fault

    async def _ping(self, context: Context) -> None:
        await self._story.ping(context, self)


@dataclass
class Story:
    """Tenants, workers and somebody who looks after them, on one store."""

    store: OpenStore
    tenants: list[Tenant]
    lasts_for: timedelta
    seed: int = 1
    worker_count: int = 3
    chances: Chances = Chances()
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(START))
    closures: list[Closure] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.end = START + self.lasts_for
        self._random = Random(self.seed)
        self._employees: list[Employee] = []
        self._buried: list[Employee] = []
        self._acts: dict[datetime, list[Act]] = {}
        self._rails = {
            tenant.name: Rail(
                self.store,
                tenant=tenant.name,
                clock=self.clock,
                draw_bits=self._random.getrandbits,
            )
            for tenant in self.tenants
        }

    async def live(self) -> None:
        """From the first day to the end of the last series."""
        for tenant in self.tenants:
            await self._begin_series(tenant)
        await self._plan_closures()
        for _ in range(self.worker_count):
            self._hire()
        while (at := await self._next_event_at()) is not None:
            if at > self.clock.now():
                await self.clock.jump_to(at)
            for act in self._acts.pop(at, ()):
                await act()
            await self.clock.advance(SECOND)
            while await self._is_at_work():
                await self.clock.advance(5 * SECOND)
        for employee in self._employees:
            employee.worker.stop()
        await self.clock.run(asyncio.wait([each.run for each in self._employees]))

    async def ping(self, context: Context, employee: Employee) -> None:
        """The handler: look whether the pair is active, send, and keep some books."""
        self.happened["attempts"] += 1
        fate = self._random.random()
        dies_at = self._random.randrange(3) if fate < self.chances.dies else None
        await self._take_some_time(employee, dies=dies_at == 0)
        if self._random.random() < self.chances.fails_before:
            raise CallRefusedError("the pair cannot be looked up")

        async def send() -> str:
            await self._take_some_time(employee, dies=dies_at == 1)
            self.sent.append(
                Sent(
                    context.tenant,
                    context.payload["pairId"],
                    context.scheduled_for,
                    context.now,
                    self.clock.now(),
                )
            )
            employee.unrecorded.add(context.job.id)
            return f"message {len(self.sent)}"

        try:
            await context.once(context.effect_key, send)
        finally:
            employee.unrecorded.discard(context.job.id)
        await self._take_some_time(employee, dies=dies_at == 2)
        if self._random.random() < self.chances.fails_after:
            raise CallRefusedError("the books are closed")

    def note_event(self, event: Event) -> None:
        if isinstance(event, JobDeferred):
            self.happened["deferrals"] += 1
        elif isinstance(event, JobStalled | JobFailed):
            self.happened["stalls" if isinstance(event, JobStalled) else "failures"] += 1
            if event.state == "dlq":
                self.happened["dead letters"] += 1
                self._plan(self.clock.now() + 3 * HOUR, lambda: self._retry_dead(event.tenant))

    def _hire(self) -> None:
        number = len(self._employees) + len(self._buried)
        self._employees.append(Employee(self, number))

    async def _take_some_time(self, employee: Employee, *, dies: bool) -> None:
        await self.clock.sleep(self._random.uniform(0.1, 3) * SECOND)
        if dies:
            while employee.unrecorded:
                await self.clock.sleep(SECOND / 10)
            self._let_die(employee)
            await self.clock.sleep(FOR_EVER)

    def _let_die(self, employee: Employee) -> None:
        self.happened["deaths"] += 1
        employee.die()
        self._employees.remove(employee)
        self._buried.append(employee)
        self._hire()

    async def _begin_series(self, tenant: Tenant) -> None:
        """One for each pair, asked for twice, as a caller does that got no answer."""
        for pair in tenant.pairs:
            ids = [
                await self._rails[tenant.name].schedule_recurring(
                    KIND,
                    {"pairId": pair},
                    rrule=tenant.rrule,
                    tz=tenant.zone,
                    start_from=tenant.start_from,
                    until=self.end,
                    idempotency_key=pair,
                )
                for _ in range(2)
            ]
            assert ids[0] == ids[1]
        if tenant.hush is not None:
            hush = tenant.hush
            await self._rails[tenant.name].set_quiet_hours(hush.start, hush.end, hush.zone)

    async def _plan_closures(self) -> None:
        """Of everything, known long before; of one tenant, switched on and off by somebody."""
        at = START.replace(hour=17, minute=30) + FORTNIGHT
        while at < self.end:
            closure = Closure(at, at + 105 * MINUTE)
            window = Maintenance(from_at=closure.start, until=closure.end, reason="upgrade")
            await plan_maintenance(self.store, EVERYTHING, window, START)
            self.closures.append(closure)
            at += 9 * WEEK
        for tenant in self.tenants:
            for number, at in enumerate(tenant.expect(self.end)):
                if number % 10 == self._random.randrange(10):
                    self._plan_switch(tenant, at)

    def _plan_switch(self, tenant: Tenant, at: datetime) -> None:
        """Half of them until a given time, the others for an unknown time."""
        is_told = self._random.random() < 0.5
        start, end = at - 10 * MINUTE, at + self._random.uniform(0.5, 30 if is_told else 1) * HOUR
        rail, until = self._rails[tenant.name], end if is_told else None
        self.closures.append(Closure(start + NOTICED_WITHIN, end, tenant.name))
        self._plan(start, lambda: rail.set_maintenance(True, until=until, reason="move"))
        self._plan(end, lambda: rail.set_maintenance(False, who="ops"))

    def _plan(self, at: datetime, act: Act) -> None:
        self._acts.setdefault(at, []).append(act)

    async def _retry_dead(self, tenant: str) -> None:
        letters = DeadLetters(
            self.store, tenant, clock=self.clock, draw_bits=self._random.getrandbits
        )
        plan = await letters.plan_retry()
        retried = await letters.retry(plan, who="ops", why="the other side is well again")
        assert set(retried.replacements) == set(plan.job_ids)

    async def _next_event_at(self) -> datetime | None:
        due_at = await self.store.next_due_at(self.clock.now())
        found = [*self._acts] if due_at is None else [due_at, *self._acts]
        return min(found, default=None)

    async def _is_at_work(self) -> bool:
        """Whether somebody holds a job, or held it when they died."""
        return bool(await self.store.find_expired(self.clock.now() + FOR_EVER, 1))
