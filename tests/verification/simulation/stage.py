"""Plays a story on a scheduler, under virtual time, and writes down what is seen of it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from tests.verification.simulation.callbacks import Callbacks
from tests.verification.simulation.mortal_store import MortalStore
from tests.verification.simulation.story import (
    CallInitialize,
    CallStop,
    Crash,
    CrashAtCall,
    Deed,
    Jump,
    Release,
    Step,
    Story,
)
from tests.verification.trace.actions import Crashed, Entry, RunFailed, RunStarted, RunSucceeded
from tests.verification.trace.recorder import Initializable, TraceRecorder

from rota.clock.loop import turn
from rota.clock.virtual import VirtualClock
from rota.scheduler.policy import DECLARATIVE, POLLING, SchedulerSettings
from rota.scheduler.scheduler import Scheduler, SchedulerState
from rota.scheduler.storage import TASKS
from rota.stores.protocol import DocumentStore
from rota.testing.faults import Failure, Fault, FaultyStore, StoreCall

MakeScheduler = Callable[[DocumentStore, VirtualClock, Story], Initializable]

_AT_REST = (SchedulerState.UNINITIALIZED, SchedulerState.STOPPED)

AFTERMATH = timedelta(days=3)
"""Longer than any callback and any pause of the scheduler."""


def make_scheduler(store: DocumentStore, clock: VirtualClock, story: Story) -> Scheduler:
    """The scheduler itself, in the story's edition and zone."""
    return Scheduler(
        store,
        clock=clock,
        zone=ZoneInfo(story.zone),
        policy=POLLING if story.edition == "polling" else DECLARATIVE,
        settings=SchedulerSettings(peers_checked_every=timedelta(minutes=10)),
    )


async def play_story(
    story: Story, store: DocumentStore, make: MakeScheduler = make_scheduler
) -> tuple[Entry, ...]:
    """The trace of a story on an empty store. Everything it started has ended on return."""
    with _silence():
        stage = Stage(story, store, make)
        try:
            for step in story.steps:
                await stage.take(step)
            await stage.end()
        finally:
            await stage.clear()
    return stage.trace


class Stage:
    """Where a story is played: a clock, a store with its faults, and one instance at a time."""

    def __init__(self, story: Story, store: DocumentStore, make: MakeScheduler) -> None:
        self._story = story
        self._make = make
        self._random = Random(story.seed + 1)
        self._clock = VirtualClock(story.start)
        self._recorder = TraceRecorder(self._clock, sink=self._follow)
        self._callbacks = Callbacks(story, self._clock)
        self._plain_store = store
        self._faulty_store = FaultyStore(store, self._clock, self._strike)
        self._director = asyncio.current_task()
        self._mortal: MortalStore | None = None
        self._scheduler: Initializable | None = None
        self._is_doubtful = False
        self._running: set[str] = set()
        self._calls: list[asyncio.Task[None]] = []

    @property
    def trace(self) -> tuple[Entry, ...]:
        return self._recorder.trace

    async def take(self, step: Step) -> None:
        if step.after:
            await self._clock.advance(step.after)
        for _ in range(step.turns):
            await turn()
        await self._do(step.deed)

    async def end(self) -> None:
        """Let everything come to its end, and stop."""
        await self._clock.advance(timedelta(seconds=1))
        self._callbacks.release()
        self._stop()
        await self._clock.advance(AFTERMATH)

    async def clear(self) -> None:
        """Leave no task behind, whatever happened."""
        if self._mortal is not None:
            self._mortal.is_dead = True
        while others := asyncio.all_tasks() - {self._director}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)

    async def _do(self, deed: Deed) -> None:
        match deed:
            case CallInitialize():
                await self._call_initialize(deed)
            case CallStop():
                self._stop()
            case Crash():
                self._crash()
            case CrashAtCall():
                if self._mortal is not None:
                    self._mortal.doom(deed)
            case Jump(by=by):
                await self._jump(by)
            case Release():
                self._callbacks.release()

    async def _call_initialize(self, deed: CallInitialize) -> None:
        if self._is_doubtful:
            await self._tell_left_running()
        if self._scheduler is None or (deed.on_new_scheduler and not self._is_engaged()):
            self._mortal = MortalStore(
                self._faulty_store, self._random, self._story.store_nature.turns, self._crash
            )
            self._scheduler = self._make(self._mortal, self._clock, self._story)
        registrations = [
            (task.name, task.expression, self._callbacks.make(task.name), task.retry_delay)
            for task in deed.tasks
        ]
        if self._scheduler is not None:
            self._call(self._recorder.initialize, self._scheduler, registrations)

    def _stop(self) -> None:
        if self._scheduler is not None:
            self._call(self._recorder.stop, self._scheduler)

    def _call(self, method: Callable[..., Awaitable[None]], *given: Any) -> None:
        """Somebody makes the call, and takes any error it gives."""

        async def make_call() -> None:
            with suppress(Exception):
                await method(*given)

        self._calls = [call for call in self._calls if not call.done()]
        self._calls.append(asyncio.create_task(make_call()))

    def _is_engaged(self) -> bool:
        """Whether the scheduler is at work, or about to be: a second one would be its replica."""
        if self._scheduler is None:
            return False
        is_called = any(not call.done() for call in self._calls)
        return is_called or getattr(self._scheduler, "state", None) not in _AT_REST

    def _crash(self) -> None:
        """Nothing is written any more, nothing recorded, and nothing goes on."""
        if self._mortal is None:
            return
        self._mortal.is_dead = True
        self._mortal = self._scheduler = None
        self._recorder.crash()
        self._is_doubtful = True
        for task in asyncio.all_tasks() - {self._director}:
            task.cancel()

    async def _jump(self, by: timedelta) -> None:
        await self._clock.advance(timedelta())
        target = self._clock.now() + by
        self._recorder.jump(target)
        await self._clock.jump_to(target)

    async def _tell_left_running(self) -> None:
        """What the store holds as running although nothing runs, before anyone reads it."""
        held: list[str] = []
        async for page in self._plain_store.scan(TASKS):
            states = [msgspec.json.decode(document.body) for document in page]
            held.extend(state["name"] for state in states if state.get("running"))
        self._recorder.leave_running([name for name in held if name not in self._running])
        self._is_doubtful = self._is_engaged()

    def _follow(self, entry: Entry) -> None:
        """Keep in mind what runs."""
        match entry:
            case RunStarted(name=name):
                self._running.add(name)
            case RunSucceeded(name=name) | RunFailed(name=name):
                self._running.discard(name)
            case Crashed():
                self._running.clear()

    def _strike(self, call: StoreCall) -> Fault | None:
        fault = dict(self._story.store_nature.struck).get(call.number) or self._draw_fault()
        if fault is None:
            return None
        self._is_doubtful = True
        lasted = fault.delay_for + fault.answer_delay_for
        self._recorder.fault(call.verb, failed=fault.failure is not None, lasted=lasted)
        return fault

    def _draw_fault(self) -> Fault | None:
        nature, random = self._story.store_nature, self._random
        if random.random() >= nature.fault_share:
            return None
        return Fault(
            random.choice((Failure.BEFORE, Failure.AFTER, None)),
            random.random() * nature.longest_delay,
            random.random() * nature.longest_delay,
        )


@contextmanager
def _silence() -> Iterator[None]:
    """Ten thousand stories need not be logged."""
    logger = logging.getLogger("rota.scheduler")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
