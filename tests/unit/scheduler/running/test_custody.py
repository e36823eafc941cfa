"""What an instance believes of tasks that others run."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from rota import Scheduler, open_store, parse_cron
from rota.events import EventEmitter
from rota.scheduler.keeping.ledger import TASKS, TaskLedger
from rota.scheduler.keeping.presence import Presence
from rota.scheduler.running.agenda import Agenda, Task
from rota.scheduler.running.custody import Custody
from rota.scheduler.tasks.record import encode_task
from rota.scheduler.tasks.state import TaskState
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.testing import VirtualClock
from rota.testing.faults import Fault, FaultyStore, StoreCall

TEN = datetime(2024, 3, 4, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STUCK_FOR = timedelta(minutes=5)


class KnownPresence(Presence):
    """A presence that is told who is alive; ``while_asking`` is called once, at the next asking."""

    def __init__(self, *living: str) -> None:
        super().__init__(MemoryStore(), VirtualClock(TEN), "me", MINUTE)
        self.living = frozenset({"me", *living})
        self.while_asking: Callable[[], object] = dict

    async def find_living(self) -> frozenset[str]:
        living, while_asking = self.living, self.while_asking
        self.while_asking = dict
        while_asking()
        return living


class EventfulStore(MemoryStore):
    """``while_reading`` is called whenever tasks are read one after the other."""

    while_reading: Callable[[], object] = dict

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        self.while_reading()
        async for page in super().scan(collection):
            yield page


class Desk:
    """A custody with tasks that are stored as running in an instance called peer."""

    def __init__(self) -> None:
        self.presence = KnownPresence("peer")
        self.store = EventfulStore()
        self.agenda = Agenda(UTC, "both")
        self.custody = Custody(
            self.presence, self.agenda, TaskLedger(self.store), EventEmitter("rota.scheduler")
        )
        self.custody.see_living(self.presence.living)

    async def add(self, *names: str, runner: str = "peer") -> list[Task]:
        cron = parse_cron("* * * * *")
        states = [
            TaskState(
                name=name,
                cron_expression=cron.text,
                retry_delay_ms=0,
                running=True,
                scheduler_identifier=runner,
            )
            for name in names
        ]
        await self.store.write_all(
            DocumentWrite(TASKS, it.name, None, encode_task(it)) for it in states
        )
        schedule = self.agenda.schedule_for(cron, TEN)
        tasks = [Task(state, 1, dict, schedule) for state in states]
        for task in tasks:
            self.agenda.add(task)
        return tasks


async def test_a_death_noticed_while_asking_about_another_frees_its_tasks() -> None:
    desk = Desk()
    (orphan,) = await desk.add("a")
    (other,) = await desk.add("b", runner="newcomer")
    desk.presence.living = frozenset({"me", "newcomer"})
    desk.custody.doubt([other])
    await desk.custody.catch_up()
    assert orphan.is_interrupted
    assert not other.is_interrupted


async def test_one_that_came_while_the_tasks_were_read_is_not_taken_for_dead() -> None:
    desk = Desk()
    (task,) = await desk.add("a", runner="newcomer")

    def come() -> None:
        desk.presence.living |= {"newcomer"}

    desk.store.while_reading = come
    desk.custody.call_census()
    await desk.custody.catch_up()
    assert not task.is_interrupted


async def test_a_departure_during_a_census_calls_for_another() -> None:
    desk = Desk()
    (task,) = await desk.add("a")

    def depart() -> None:
        desk.presence.living = frozenset({"me"})
        desk.custody.call_census()

    desk.presence.while_asking = depart
    desk.custody.call_census()
    await desk.custody.catch_up()
    assert not task.is_interrupted
    await desk.custody.catch_up()
    assert task.is_interrupted


@pytest.mark.clause("D-64")
async def test_an_instance_that_lives_but_does_nothing_holds_up_no_other() -> None:
    """The first one gets no answer from its store any more; its last run is settled by then."""
    clock = VirtualClock(TEN)
    started: list[tuple[str, datetime]] = []
    is_stuck = False

    def strike(_: StoreCall) -> Fault | None:
        return Fault(delay_for=STUCK_FOR) if is_stuck else None

    def make(instance: str) -> list[tuple[str, str, Callable[[], Awaitable[None]], timedelta]]:
        async def run() -> None:
            started.append((instance, clock.now()))
            await clock.sleep(timedelta(seconds=5))

        return [("a", "* * * * *", run, MINUTE)]

    async with await open_store("memory://") as store:
        first = Scheduler(FaultyStore(store, clock, strike), clock=clock, zone=UTC)
        second = Scheduler(store, clock=clock, zone=UTC)
        await first.initialize(make("first"))
        await clock.advance(timedelta(seconds=1))
        await second.initialize(make("second"))
        await clock.advance(timedelta(seconds=9))
        assert started == [("first", TEN)]
        is_stuck = True
        await clock.advance_to(TEN + 4 * MINUTE)
        assert started[1:] == [("second", TEN + number * MINUTE) for number in range(1, 5)]
        is_stuck = False
        await clock.advance_to(TEN + 9.5 * MINUTE)
        assert Counter(at for _, at in started) == {TEN + n * MINUTE: 1 for n in range(10)}
        await first.stop()
        await second.stop()
