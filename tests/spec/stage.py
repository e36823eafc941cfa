"""A stage for schedulers: a clock, a store, callbacks that note when they start, and the events."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

import msgspec

from rota import DECLARATIVE, Scheduler, SchedulerPolicy, SchedulerSettings
from rota.clock.protocol import Clock
from rota.events import Event
from rota.scheduler import PollingState, SchedulerState
from rota.scheduler.registration import Callback, Registration
from rota.scheduler.storage import SET_ASIDE, TASKS
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach
from rota.testing import VirtualClock

MONDAY = datetime(2027, 1, 4, 10, 0, tzinfo=UTC)
"""Ten o'clock on a Monday in January."""

SELDOM = SchedulerSettings(peers_checked_every=timedelta(days=1), peer_silent_for=timedelta(days=3))
"""Settings for stories without peers: hours pass quickly without presence checks."""

Kind = TypeVar("Kind", bound=Event)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def at(hour: int, minute: int = 0, second: float = 0) -> datetime:
    """An instant of that Monday."""
    return MONDAY.replace(hour=hour, minute=minute) + seconds(second)


def state_of(scheduler: Scheduler) -> SchedulerState:
    """The state, read by a function so that the type checker does not take it for unchanging."""
    return scheduler.state


def polling_state_of(scheduler: Scheduler) -> PollingState:
    return scheduler.polling_state


class Stage:
    """Where schedulers act. ``starts`` are (name, instant) in order, ``ends`` likewise."""

    def __init__(self, store: DocumentStore, start: datetime = MONDAY) -> None:
        self.store = store
        self.clock = VirtualClock(start)
        self.starts: list[tuple[str, datetime]] = []
        self.ends: list[tuple[str, datetime]] = []
        self.events: list[Event] = []
        self.schedulers: list[Scheduler] = []

    def scheduler(
        self,
        policy: SchedulerPolicy = DECLARATIVE,
        *,
        zone: tzinfo = UTC,
        store: DocumentStore | None = None,
        settings: SchedulerSettings | None = None,
    ) -> Scheduler:
        made = Scheduler(
            store if store is not None else self.store,
            clock=self.clock,
            zone=zone,
            policy=policy,
            settings=settings if settings is not None else SELDOM,
        )
        made.events.subscribe(self.events.append)
        self.schedulers.append(made)
        return made

    def task(
        self,
        name: str = "a",
        cron: str = "* * * * *",
        delay: timedelta = timedelta(minutes=5),
        *,
        takes: timedelta = timedelta(0),
        fails: Iterable[BaseException | None] = (),
    ) -> Registration:
        """A registration whose runs take so long and end, one after another, as ``fails`` says."""
        outcomes = iter(fails)
        return (name, cron, self._callback(name, takes, outcomes), delay)

    def _callback(
        self, name: str, takes: timedelta, outcomes: Iterator[BaseException | None]
    ) -> Callback:
        async def run() -> None:
            self.starts.append((name, self.clock.now()))
            if takes:
                await self.clock.sleep(takes)
            self.ends.append((name, self.clock.now()))
            error = next(outcomes, None)
            if error is not None:
                raise error

        return run

    def started(self, name: str = "a") -> list[datetime]:
        return [instant for started, instant in self.starts if started == name]

    def ended(self, name: str = "a") -> list[datetime]:
        return [instant for ended, instant in self.ends if ended == name]

    def emitted(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def names(self, *without: str) -> list[str]:
        """The names of all events so far, in order, but for those that start like these."""
        return [event.name for event in self.events if not event.name.startswith(without)]

    async def documents(self, collection: str = TASKS) -> dict[str, Document]:
        return {
            document.key: document
            async for page in self.store.scan(collection)
            for document in page
        }

    async def record(self, name: str = "a") -> dict[str, Any]:
        """What is stored about a task, as JSON has it."""
        stored: dict[str, Any] = msgspec.json.decode((await self.documents())[name].body)
        return stored

    async def set_aside(self) -> list[bytes]:
        return [document.body for document in (await self.documents(SET_ASIDE)).values()]

    async def crash(self, scheduler: Scheduler) -> None:
        """Kill one instance: all its tasks are gone, and it has no chance to say anything."""
        session = scheduler._session
        assert session is not None
        doomed = [session._life, session._peer_watch, session.loop._alarm._timer]
        killed = {it for it in (*doomed, *session.loop.runs._under_way) if it is not None}
        for task in killed:
            task.cancel()
        await asyncio.wait(killed)
        self.schedulers.remove(scheduler)

    async def close(self) -> None:
        for scheduler in self.schedulers:
            if scheduler.state is not SchedulerState.STOPPED:
                await self.clock.run(scheduler.stop())


class SpyStore:
    """Another store, whose calls are counted and can be held up or broken from outside.

    ``delays`` and ``errors`` are keyed by the verb, and for scans and reads by verb and collection
    as ``"scan scheduler.tasks"``; an error strikes as long as it is there.
    """

    def __init__(self, store: DocumentStore, clock: Clock) -> None:
        self.reach: Reach = store.reach
        self.calls: list[str] = []
        self.delays: dict[str, timedelta] = {}
        self.errors: dict[str, BaseException] = {}
        self.losing_replies = False
        self._store = store
        self._clock = clock

    @property
    def write_count(self) -> int:
        return sum(call.startswith("write") for call in self.calls)

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        await self._suffer("scan", collection)
        async for page in self._store.scan(collection):
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        await self._suffer("read", collection)
        return await self._store.read(collection, keys)

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        collection = writes[0].collection if writes else ""
        if not self.losing_replies:
            await self._suffer("write_each", collection)
            return await self._store.write_each(writes)
        await self._store.write_each(writes)
        await self._suffer("write_each", collection)
        raise AssertionError("a reply is lost by an error")

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        await self._suffer("write_all", "")
        await self._store.write_all(writes)

    async def close(self) -> None:
        await self._store.close()

    async def _suffer(self, verb: str, collection: str) -> None:
        self.calls.append(verb)
        keys = (verb, f"{verb} {collection}")
        for key in keys:
            if key in self.delays:
                await self._clock.sleep(self.delays[key])
        for key in keys:
            if key in self.errors:
                raise self.errors[key]
