"""The processes of a fleet, each as one coroutine on its host."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

from tests.verification.fleet.hosts import Host
from tests.verification.fleet.link import Link
from tests.verification.fleet.plan import Act, FleetPlan
from tests.verification.jobs_trace.attempts import recorded
from tests.verification.jobs_trace.recording import RecordingStore, Scribe
from tests.verification.jobs_trace.records import AttemptEnded, AttemptStarted
from tests.verification.trace.recorder import TraceRecorder

from rota.clock.protocol import Clock
from rota.clock.virtual import VirtualClock
from rota.errors import RotaError, SchedulerInitializationError, ScheduleTaskError, StoreError
from rota.jobs import JobId, JobRequest, admit_job, make_job_id
from rota.policy.gate_settings import Scope
from rota.policy.gates import Maintenance
from rota.poller import PolledJob, PolledJobs, Poller
from rota.rail import DeadLetters, Rail
from rota.rail.settings import clear_maintenance, pause_queue, resume_queue, set_maintenance
from rota.scheduler.policy import SchedulerSettings
from rota.scheduler.scheduler import Scheduler
from rota.server import create_app
from rota.worker import Context, Worker, WorkerSettings

TENANT = "default"
NARROW, SHUT = "narrow", "shut"
"""The queue with a limit, and the one that is paused and maintained."""

_SECOND = timedelta(seconds=1)
_RETRIES = {"max_attempts": 4, "backoff_strategy": "FIXED", "base_delay_seconds": 1}
_TRIES = 5
LEDGER_KEYS = ("red", "blue")
SERIES_INTERVAL = timedelta(seconds=10)
TASKS = {"often": "* * * * *", "rare": "1 9 * * *"}
"""What schedulers run: what the next minute makes up for, and what it does not."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A time in which a queue lets nothing start: from the answer that says so to the next call."""

    queue: str
    is_gate: bool
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Polled:
    """A document in the hands of a poller."""

    job_id: str
    due_at: datetime
    host: str
    began_at: datetime
    ended_at: datetime
    is_done: bool


@dataclass(slots=True)
class EffectRun:
    """An effect that happens. ``is_repeated``: a caller had its result already."""

    key: str
    host: str
    is_repeated: bool
    began_at: datetime
    ended_at: datetime | None = None


@dataclass(slots=True)
class Happenings:
    """What is seen of a fleet besides its calls of the store."""

    effects: list[EffectRun] = field(default_factory=list)
    results: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    closings: list[Closing] = field(default_factory=list)
    series: list[JobId] = field(default_factory=list)
    cancelled: set[JobId] = field(default_factory=set)
    polled: list[Polled] = field(default_factory=list)
    polled_ids: set[str] = field(default_factory=set)
    schedules: dict[str, TraceRecorder] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    service: "Visit | None" = None


@dataclass(slots=True)
class ProcessContext:
    """What a process works with."""

    plan: FleetPlan
    host: Host
    link: Link
    store: RecordingStore
    scribe: Scribe
    time: VirtualClock
    seen: Happenings

    def open_clock(self) -> Any:
        return self.host.open_clock(self.link.read_clock)


async def keep_starting(around: ProcessContext, live: Callable[[Clock], Awaitable[None]]) -> None:
    """Start the process, again while the store does not answer."""
    while True:
        try:
            async with around.open_clock() as clock:
                await live(clock)
                return
        except (StoreError, SchedulerInitializationError, ScheduleTaskError):
            await around.host.clock.sleep(_SECOND)
            await around.host.pass_gate()


async def run_worker(around: ProcessContext) -> None:
    async def live(clock: Clock) -> None:
        worker = make_worker(around, clock)
        around.host.stop = worker.stop
        await worker.run()

    await keep_starting(around, live)


def make_worker(around: ProcessContext, clock: Clock) -> Worker:
    plan, random = around.plan, around.host.random
    settings = WorkerSettings(
        batch=random.choice((1, 3, 10)),
        concurrency=random.choice((1, 3)),
        lease_for=plan.lease_for,
        poll_for=plan.poll_for,
        captures_logs=False,
        grace_for=2 * _SECOND,
    )
    work = recorded(make_handler(around, clock), around.scribe)
    worker = Worker(around.store, {"work": work}, clock=clock, settings=settings)
    worker.random = Random(random.random())
    return worker


def make_handler(around: ProcessContext, clock: Clock) -> Callable[[Context], Awaitable[Any]]:
    """Does what the payload says: lasts, fails some times, has an effect once."""

    async def work(context: Context) -> None:
        asked = context.payload
        await clock.sleep(asked.get("seconds", 0) * _SECOND)
        if context.attempt <= asked.get("fails", 0):
            raise ValueError("not yet")
        if key := asked.get("once"):
            await have_effect(around, context, key)

    return work


async def have_effect(around: ProcessContext, context: Context, key: str) -> None:
    on_crash: Any = "at_most_once" if key == LEDGER_KEYS[0] else "at_least_once"
    seen, host = around.seen, around.host

    async def act() -> str:
        run = EffectRun(key, host.name, key in seen.results, around.time.now())
        seen.effects.append(run)
        number = len(seen.effects)
        try:
            await host.clock.sleep(host.random.choice((0, 2, 10)) * _SECOND)
            await host.pass_gate()
            if host.random.random() < 0.2:
                raise ValueError("perhaps it has happened")
        finally:
            run.ended_at = around.time.now()
        return f"{number}"

    result = await context.once(key, act, on_crash=on_crash)
    if host.is_alive:
        seen.results[key].add(str(result))


async def run_scheduler(around: ProcessContext) -> None:
    async def live(clock: Clock) -> None:
        scheduler = Scheduler(
            around.link,
            clock=clock,
            zone=ZoneInfo("UTC"),
            settings=SchedulerSettings(peers_checked_every=5 * _SECOND, kept_runs=0),
        )
        new = TraceRecorder(around.time, instance=around.host.name)
        recorder = around.seen.schedules.setdefault(around.host.name, new)
        around.link.on_fault = lambda verb, lasted: recorder.fault(verb, lasted=lasted)
        tick = _tick(clock, around.host.random)
        tasks = [(name, times, tick, 5 * _SECOND) for name, times in TASKS.items()]
        await recorder.initialize(scheduler, tasks)
        await around.time.sleep(timedelta(days=1))

    await keep_starting(around, live)


def _tick(clock: Clock, random: Random) -> Callable[[], Awaitable[None]]:
    async def tick() -> None:
        await clock.sleep(random.choice((1, 20)) * _SECOND)
        if random.random() < 0.2:
            raise ValueError("not this time")

    return tick


async def run_poller(around: ProcessContext) -> None:
    """Errors of the store are its own business; its hooks are slower than nothing."""

    async def live(clock: Clock) -> None:
        async def process(job: PolledJob) -> None:
            began_at, is_done = around.time.now(), False
            try:
                await clock.sleep(around.host.random.choice((0, 1, 5)) * _SECOND)
                is_done = True
            finally:
                if around.host.is_alive:
                    turn = (began_at, around.time.now(), is_done)
                    due_at = job.sleep_until or began_at
                    around.seen.polled.append(Polled(job.id, due_at, around.host.name, *turn))

        jobs = PolledJobs(around.link, clock=clock)
        poller = Poller(
            jobs,
            on_document=process,
            on_error=lambda _: None,
            lock_duration=20 * _SECOND,
            idle_delay=2 * _SECOND,
            clock=clock,
        )
        await poller.start()
        await around.time.sleep(timedelta(days=1))

    await keep_starting(around, live)


async def run_http_worker(around: ProcessContext) -> None:
    """A worker that knows the service only, in the process of the service."""

    async def live(clock: Clock) -> None:
        visit = around.seen.service = Visit(around, clock)
        while True:
            order = {"limit": 2, "kinds": ["work"], **visit.lease}
            answer = await visit.post("/api/v1/leases", order)
            jobs = answer.get("items", [])
            if not jobs:
                await clock.sleep(4 * _SECOND)
                continue
            for job in jobs:
                await visit.work(job)

    await keep_starting(around, live)


class Visit:
    """A caller of the REST service, whose store is the one of its host."""

    def __init__(self, around: ProcessContext, clock: Clock) -> None:
        self.host = around.host
        self.lease = {"worker": around.host.name, "lease_seconds": 4}
        self._around = around
        self._clock = clock
        self._app = create_app(around.store, clock=clock)  # type: ignore[arg-type]  # it has the verbs used here

    async def work(self, job: dict[str, Any]) -> None:
        """Start a leased job, end it, and report it until the service answers.

        A slow worker extends its lease around the time at which that ends, often too late.
        """
        lease, scribe = job["lease"], self._around.scribe
        held = {"job_id": job["id"], "token": lease["token"]}
        facts = {**held, "worker": lease["worker"], "number": job.get("attempt_count", 0) + 1}
        scribe.write(AttemptStarted, **facts)
        for _ in range(self.host.random.choice((0, 2))):
            await self._clock.sleep((3 + 3 * self.host.random.random()) * _SECOND)
            await self.post("/api/v1/leases/extend", {"leases": [held], **self.lease})
        await self._clock.sleep(_SECOND)
        scribe.write(AttemptEnded, ending="returned", **facts)
        body = {"worker": self.host.name, "outcomes": [{**held, "outcome": "succeeded"}]}
        for _ in range(_TRIES):
            if await self.post("/api/v1/leases/settle", body):
                return
            await self._clock.sleep(_SECOND)

    async def post(self, path: str, body: Any, **headers: str) -> dict[str, Any]:
        """The answer; empty when the service could not carry it out."""
        sent: list[Any] = []

        messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not messages:
                await asyncio.get_running_loop().create_future()  # it stays connected
            return messages.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(make_scope(path, headers), receive, send)
        status = sent[0]["status"]
        if status >= 300:
            if status < 500 and status not in (409, 429):
                self._around.seen.errors.append(f"{path} answered {status}: {sent[1]['body']!r}")
            return {}
        answer: dict[str, Any] = json.loads(b"".join(each.get("body", b"") for each in sent[1:]))
        return answer


def make_scope(path: str, headers: dict[str, str]) -> dict[str, Any]:
    given = {"host": "localhost", "content-type": "application/json", **headers}
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "asgi": {"version": "3.0"},
    }


class Client:
    """Somebody who schedules work, repeats what failed, and changes their mind."""

    def __init__(self, around: ProcessContext, clock: Clock) -> None:
        self._around = around
        self._clock = clock
        self._random = around.host.random
        self._rail = Rail(
            around.store,
            TENANT,
            clock=clock,
            draw_bits=self._random.getrandbits,
        )
        self._ids: list[JobId] = []
        self._kinds: dict[str, Callable[[Act], Awaitable[None]]] = {
            "once": self._schedule,
            "keyed": self._schedule_keyed,
            "series": self._schedule_series,
            "ledger": self._schedule_effects,
            "cancel": self._cancel,
            "chain": self._schedule_chain,
            "http": self._post,
            "move": self._move,
            "pause series": self._pause_series,
            "pause queue": self._pause_queue,
            "maintenance": self._maintain,
            "retry dead": self._retry_dead,
            "poll": self._add_polled,
        }

    async def act(self, act: Act) -> None:
        with suppress(RotaError):
            await self._kinds[act.what](act)

    async def _schedule(self, act: Act, **more: Any) -> None:
        """A job; what is not given is drawn."""
        drawn = {
            "run_at": self._clock.now() + self._random.choice((0, 0, 2, 10)) * _SECOND,
            "queue": self._random.choice((None, NARROW, SHUT)),
            "payload": self._draw_payload(act),
        }
        order = {**drawn, "retry_policy": _RETRIES, **more}
        self._ids.append(await self._rail.schedule_once("work", **order))

    async def _schedule_keyed(self, act: Act) -> None:
        """Repeated until it is answered, and then once more: it is one job."""
        payload = self._draw_payload(act)
        for number in range(_TRIES):
            try:
                await self._schedule(act, payload=payload, idempotency_key=f"key {act.number}")
            except StoreError:
                await self._clock.sleep(_SECOND)
            else:
                if number:
                    return

    async def _schedule_series(self, act: Act) -> None:
        overlap: Any = self._random.choice(("skip", "allow"))
        key = f"series {act.number}" if self._random.random() < 0.5 else None
        for _ in range(_TRIES):
            try:
                job_id = await self._rail.schedule_recurring(
                    "work",
                    {"seconds": self._random.choice((0, 1, 12))},
                    interval=SERIES_INTERVAL,
                    count=self._random.choice((2, 4)),
                    overlap=overlap,
                    retry_policy=_RETRIES,
                    idempotency_key=key,
                )
            except StoreError:
                await self._clock.sleep(_SECOND)
            else:
                self._ids.append(job_id)
                self._around.seen.series.append(job_id)
                return

    async def _schedule_effects(self, act: Act) -> None:
        """Three jobs that want the same effect, at the same time."""
        due_at = self._clock.now() + 2 * _SECOND
        for queue in (None, None, NARROW):
            payload = {"once": LEDGER_KEYS[act.number % 2]}
            await self._schedule(act, payload=payload, queue=queue, run_at=due_at)

    async def _schedule_chain(self, act: Act) -> None:
        await self._schedule(act)
        request = JobRequest(
            name="chained",
            kind="work",
            queue="default",
            payload=self._draw_payload(act),
            dependencies=tuple(self._ids[-1:]),
            on_parent_failure=self._random.choice(("block", "run", "skip")),
        )
        now = self._clock.now()
        job_id = make_job_id(now, self._random.getrandbits(62))
        await self._around.store.insert([admit_job(request, job_id=job_id, now=now)], now)

    async def _post(self, act: Act) -> None:
        body = self._new_job(act)
        for _ in range(_TRIES):
            answer = await self._send(body, **{"idempotency-key": f"http-{act.number}"})
            if "id" in answer:
                self._ids.append(answer["id"])
                return
            await self._clock.sleep(_SECOND)

    async def _cancel(self, _: Act) -> None:
        job_id = self._random.choice(self._ids)
        self._around.seen.cancelled.add(job_id)
        await self._rail.cancel(job_id)

    async def _move(self, _: Act) -> None:
        job_id = self._random.choice(self._ids)
        if self._random.random() < 0.5:
            await self._rail.run_now(job_id)
        else:
            await self._rail.reschedule(job_id, self._clock.now() + 5 * _SECOND)

    async def _pause_series(self, _: Act) -> None:
        job_id = self._random.choice(self._ids)
        await self._rail.pause(job_id)
        await self._clock.sleep(7 * _SECOND)
        await self._persist(lambda: self._rail.resume(job_id))

    async def _schedule_shut(self, act: Act) -> None:
        """Jobs of a queue that is closed half a second later: due before that and meanwhile."""
        now = self._clock.now()
        for seconds in self._random.sample((0, 1.6, 1.8, 3, 5), 2):
            due_at = now + seconds * _SECOND
            await self._schedule(act, payload={"seconds": 0}, queue=SHUT, run_at=due_at)
        await self._clock.sleep(_SECOND / 2)

    async def _pause_queue(self, act: Act) -> None:
        await self._schedule_shut(act)
        store: Any = self._around.store
        await pause_queue(store, SHUT, clock=self._clock)
        since = self._around.time.now()
        await self._clock.sleep(8 * _SECOND)
        self._note_closed(since, is_gate=False)
        await self._persist(lambda: resume_queue(store, SHUT, clock=self._clock))

    async def _maintain(self, act: Act) -> None:
        await self._schedule_shut(act)
        store: Any = self._around.store
        window = Maintenance(until=self._clock.now() + 9 * _SECOND)
        over_at = self._around.time.now() + 9 * _SECOND
        scope = Scope(queue=SHUT)
        await set_maintenance(store, scope, window, clock=self._clock)
        since = self._around.time.now()
        await self._clock.sleep(6 * _SECOND)
        self._note_closed(since, is_gate=True, over_at=over_at)
        await self._persist(lambda: clear_maintenance(store, scope))

    def _note_closed(
        self, since: datetime, *, is_gate: bool, over_at: datetime | None = None
    ) -> None:
        until = self._around.time.now() if over_at is None else over_at
        closing = Closing(SHUT, is_gate, since, min(until, self._around.time.now()))
        self._around.seen.closings.append(closing)

    async def _retry_dead(self, _: Act) -> None:
        letters = DeadLetters(self._around.store, TENANT, clock=self._clock)
        plan = await letters.plan_retry()
        await letters.retry(plan)

    async def _add_polled(self, _: Act) -> None:
        jobs = PolledJobs(self._around.link, clock=self._clock)
        job_id = await jobs.add({}, sleep_until=self._clock.now() + 2 * _SECOND)
        self._around.seen.polled_ids.add(job_id)

    async def _persist(self, act: Callable[[], Awaitable[Any]]) -> None:
        """Retries until the store answers: no queue stays paused."""
        while True:
            try:
                await act()
            except StoreError:
                await self._clock.sleep(_SECOND)
            else:
                return

    async def _send(self, body: dict[str, Any], **headers: str) -> dict[str, Any]:
        """What the service answers; nothing if it is not there, or dies meanwhile."""
        service = self._around.seen.service
        if service is None or not service.host.is_alive:
            return {}
        call = service.host.start(service.post("/api/v1/jobs", body, **headers))
        await asyncio.wait({call})
        return {} if call.cancelled() else call.result()

    def _draw_payload(self, act: Act) -> dict[str, Any]:
        seconds, fails = self._random.choice((0, 0, 1, 5, 9, 20)), (0, 0, 0, 1, 9)
        return {
            "n": act.number,
            "seconds": seconds,
            "fails": 0 if seconds == 20 else self._random.choice(fails),
        }

    def _new_job(self, act: Act) -> dict[str, Any]:
        return {
            "name": f"job {act.number}",
            "kind": "work",
            "queue": "default",
            "payload": self._draw_payload(act),
            "retry_policy": _RETRIES,
        }


async def run_client(around: ProcessContext, acts: tuple[Act, ...], started_at: datetime) -> None:
    async def live(clock: Clock) -> None:
        client = Client(around, clock)
        for act in acts:
            await around.time.sleep_until(started_at + act.at)
            await client.act(act)

    await keep_starting(around, live)
