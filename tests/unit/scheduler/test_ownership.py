"""How an instance keeps track of tasks that others run."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from rota import Scheduler, open_store, parse_cron
from rota.events import EventEmitter
from rota.scheduler.due_heap import DueHeap, Task
from rota.scheduler.ownership import Ownership
from rota.scheduler.presence import Presence
from rota.scheduler.storage import TASKS, StoredTask, encode_task, find_tasks
from rota.scheduler.task import TaskState, begin_attempt
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.testing import VirtualClock
from rota.testing.faults import Fault, FaultyStore, StoreCall

TEN = datetime(2024, 3, 4, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STUCK_FOR = timedelta(minutes=5)


class KnownPresence(Presence):
    """A presence with given living instances; ``while_asking`` is called once, at the next call."""

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


class Setting:
    """An ownership with tasks that are stored as running in an instance called peer."""

    def __init__(self) -> None:
        self.presence = KnownPresence("peer")
        self.store = EventfulStore()
        self.heap = DueHeap(UTC, "both")
        self.ownership = Ownership(
            self.presence, self.heap, self.store, EventEmitter("rota.scheduler")
        )
        self.ownership.see_living(self.presence.living)

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
        schedule = self.heap.schedule_for(cron, TEN)
        tasks = [Task(state, 1, dict, schedule) for state in states]
        for task in tasks:
            self.heap.add(task)
        return tasks


async def test_a_death_noticed_while_asking_about_another_frees_its_tasks() -> None:
    setting = Setting()
    (orphan,) = await setting.add("a")
    (other,) = await setting.add("b", runner="newcomer")
    setting.presence.living = frozenset({"me", "newcomer"})
    setting.ownership.doubt([other])
    await setting.ownership.catch_up()
    assert orphan.is_interrupted
    assert not other.is_interrupted


async def test_an_instance_that_appears_during_a_scan_is_not_dead() -> None:
    setting = Setting()
    (task,) = await setting.add("a", runner="newcomer")

    def come() -> None:
        setting.presence.living |= {"newcomer"}

    setting.store.while_reading = come
    setting.ownership.request_rescan()
    await setting.ownership.catch_up()
    assert not task.is_interrupted


async def test_a_departure_during_a_rescan_causes_another() -> None:
    setting = Setting()
    (task,) = await setting.add("a")

    def depart() -> None:
        setting.presence.living = frozenset({"me"})
        setting.ownership.request_rescan()

    setting.presence.while_asking = depart
    setting.ownership.request_rescan()
    await setting.ownership.catch_up()
    assert not task.is_interrupted
    await setting.ownership.catch_up()
    assert task.is_interrupted


async def test_a_claim_that_comes_too_late_writes_nothing() -> None:
    setting = Setting()
    mine = await setting.add("a", "b")
    (theirs,) = [Task(mine[0].state, 1, dict, mine[0].schedule)]
    claimed = begin_attempt(theirs.state, TEN, "they", "x")
    assert await setting.ownership.save([theirs], [claimed]) == [True]
    late = [begin_attempt(task.state, TEN, "me", "x") for task in mine]
    assert await setting.ownership.save(mine, late) == [False, True]
    assert [task.version for task in mine] == [1, 2]
    found = await find_tasks(setting.store, ["a"])
    assert isinstance(found["a"], StoredTask)
    assert found["a"].state.scheduler_identifier == "they"


async def test_a_stuck_instance_does_not_hold_up_others() -> None:
    """The first instance gets no more answers from its store; its last run is written by then."""
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
