from datetime import UTC, datetime

import pytest

from rota import DECLARATIVE, parse_cron
from rota.errors import ScheduleTaskError, TaskListMismatchError
from rota.events import EventEmitter
from rota.scheduler.policy import SchedulerContext, SchedulerSettings
from rota.scheduler.reconciliation import (
    ATTEMPTS,
    Moment,
    Reconciliation,
    Standing,
    decide_reconciliation,
    list_writes,
    reconcile_store,
)
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.storage import SET_ASIDE, TASKS, write_task
from rota.scheduler.task import TaskState, begin_attempt
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
MOMENT = Moment(TEN, "me", frozenset({"me"}))


async def nothing() -> None:
    """A callback."""


def accept(**crons: str) -> dict[str, AcceptedTask]:
    return {
        name: AcceptedTask(name, parse_cron(cron), nothing, 1000) for name, cron in crons.items()
    }


def a_state(name: str, cron: str = "0 9 * * *") -> TaskState:
    return TaskState(
        name=name, cron_expression=cron, retry_delay_ms=1000, running=False, registered_at=TEN
    )


class Living:
    """The living instances, and how often they were read."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)
        self.read_count = 0

    async def __call__(self) -> frozenset[str]:
        self.read_count += 1
        return self.names


def around(store: MemoryStore) -> SchedulerContext:
    return SchedulerContext(
        store=store,
        clock=VirtualClock(TEN),
        zone=UTC,
        policy=DECLARATIVE,
        settings=SchedulerSettings(),
        events=EventEmitter("rota.scheduler"),
    )


async def decide(store: MemoryStore, living: Living, **crons: str) -> Reconciliation:
    return await decide_reconciliation(around(store), accept(**crons), MOMENT, living)


@pytest.fixture
async def store() -> MemoryStore:
    made = MemoryStore()
    await made.write_all([write_task(a_state(name), None) for name in ("kept", "changed", "gone")])
    await made.write_all([DocumentWrite(TASKS, "broken", None, b"?")])
    await made.write_all([DocumentWrite(TASKS, "broken and gone", None, b"?")])
    return made


async def test_only_differences_are_written(store: MemoryStore) -> None:
    crons = {"kept": "0 9 * * *", "changed": "1 9 * * *", "new": "0 9 * * *", "broken": "0 9 * * *"}
    decided = await decide(store, Living("me"), **crons)
    standings = {name: it.reconciled.standing for name, it in decided.tasks.items()}
    assert standings == {
        "kept": Standing.KEPT,
        "changed": Standing.CHANGED,
        "new": Standing.NEW,
        "broken": Standing.NEW,
    }
    writes = list(list_writes(decided, "me"))
    kept_aside = [write for write in writes if write.collection == SET_ASIDE]
    assert [write.body for write in kept_aside] == [b"?", b"?"]
    tasks = {write.key: write for write in writes if write.collection == TASKS}
    assert {name: (it.expected, it.body is None) for name, it in tasks.items()} == {
        "broken": (1, False),
        "broken and gone": (1, True),
        "gone": (1, True),
        "changed": (1, False),
        "new": (None, False),
    }
    assert {name: it.version_after for name, it in decided.tasks.items()} == {
        "kept": 1,
        "changed": 2,
        "new": 1,
        "broken": 2,
    }


async def test_a_second_reconciliation_writes_nothing(store: MemoryStore) -> None:
    for _ in range(2):
        decided = await reconcile_store(around(store), accept(a="0 9 * * *"), MOMENT, Living("me"))
    assert list(list_writes(decided, "me")) == []
    assert not decided.broken
    assert not decided.removed


@pytest.mark.parametrize(("alive", "interrupted"), [(True, False), (False, True)])
async def test_living_instances_are_read_again_after_the_tasks(
    alive: bool, interrupted: bool
) -> None:
    store = MemoryStore()
    running = begin_attempt(a_state("a"), TEN, "stranger", "occurrence")
    await store.write_all([write_task(running, None)])
    living = Living(*(["stranger"] if alive else []))
    decided = await decide(store, living, a="0 9 * * *")
    assert living.read_count == 1
    assert decided.tasks["a"].reconciled.is_interrupted is interrupted


async def test_without_running_tasks_the_living_are_not_read_again(store: MemoryStore) -> None:
    living = Living()
    await decide(store, living, kept="0 9 * * *")
    assert living.read_count == 0


class BusyStore(MemoryStore):
    """Another instance writes first, ``times`` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    async def write_all(self, writes: object) -> None:
        if self.times > 0:
            self.times -= 1
            (document,) = (await self.read(TASKS, ["a"])).values()
            await self.write_each([DocumentWrite(TASKS, "a", document.version, document.body)])
        await super().write_all(writes)  # type: ignore[arg-type] # handed on


async def make_busy(times: int) -> BusyStore:
    store = BusyStore(0)
    await store.write_all([write_task(a_state("a"), None)])
    store.times = times
    return store


async def test_a_stale_decision_is_taken_again() -> None:
    store = await make_busy(ATTEMPTS - 1)
    await reconcile_store(around(store), accept(a="1 9 * * *"), MOMENT, Living("me"))
    (document,) = (await store.read(TASKS, ["a"])).values()
    assert b'"1 9 * * *"' in document.body


async def test_reconciliation_gives_up_after_repeated_conflicts() -> None:
    store = await make_busy(ATTEMPTS)
    with pytest.raises(TaskListMismatchError):
        await reconcile_store(around(store), accept(a="1 9 * * *"), MOMENT, Living("me"))


async def test_error_names_a_broken_record_when_only_those_are_removed() -> None:
    class FailingStore(MemoryStore):
        async def write_all(self, writes: object) -> None:  # noqa: ARG002 - as the protocol
            raise OSError("no space")

    store = FailingStore()
    await store.write_each([DocumentWrite(TASKS, "broken", None, b"?")])
    with pytest.raises(ScheduleTaskError, match="Failed to schedule task 'broken': no space"):
        await reconcile_store(around(store), {}, MOMENT, Living())
