from datetime import UTC, datetime

import pytest

from rota import DECLARATIVE, parse_cron
from rota.errors import ScheduleTaskError, TaskListMismatchError
from rota.scheduler.keeping.intake import ATTEMPTS, Intake, carry_out, decide_intake, list_writes
from rota.scheduler.keeping.ledger import SET_ASIDE, TASKS, TaskLedger, write_task
from rota.scheduler.tasks.reconcile import Moment, Standing
from rota.scheduler.tasks.registration import AcceptedTask
from rota.scheduler.tasks.state import TaskState, begin_attempt
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite

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
    """Who is alive, and how often that was asked."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)
        self.asked = 0

    async def __call__(self) -> frozenset[str]:
        self.asked += 1
        return self.names


async def decide(store: MemoryStore, living: Living, **crons: str) -> Intake:
    return await decide_intake(TaskLedger(store), accept(**crons), DECLARATIVE, MOMENT, living)


@pytest.fixture
async def store() -> MemoryStore:
    made = MemoryStore()
    await made.write_all([write_task(a_state(name), None) for name in ("kept", "changed", "gone")])
    await made.write_all([DocumentWrite(TASKS, "broken", None, b"?")])
    await made.write_all([DocumentWrite(TASKS, "broken and gone", None, b"?")])
    return made


@pytest.mark.clause("D-51", "D-54")
async def test_what_is_written_is_what_differs(store: MemoryStore) -> None:
    crons = {"kept": "0 9 * * *", "changed": "1 9 * * *", "new": "0 9 * * *", "broken": "0 9 * * *"}
    intake = await decide(store, Living("me"), **crons)
    standings = {name: it.reconciled.standing for name, it in intake.tasks.items()}
    assert standings == {
        "kept": Standing.KEPT,
        "changed": Standing.CHANGED,
        "new": Standing.NEW,
        "broken": Standing.NEW,
    }
    writes = list(list_writes(intake, "me"))
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
    assert {name: it.version_after for name, it in intake.tasks.items()} == {
        "kept": 1,
        "changed": 2,
        "new": 1,
        "broken": 2,
    }


@pytest.mark.clause("D-59", "D-60")
async def test_carried_out_twice_it_writes_once(store: MemoryStore) -> None:
    ledger = TaskLedger(store)
    for _ in range(2):
        intake = await carry_out(ledger, accept(a="0 9 * * *"), DECLARATIVE, MOMENT, Living("me"))
    assert list(list_writes(intake, "me")) == []
    assert not intake.broken
    assert not intake.removed


@pytest.mark.clause("D-51", "D-53")
@pytest.mark.parametrize(("alive", "interrupted"), [(True, False), (False, True)])
async def test_a_stranger_is_asked_about_after_the_tasks_were_read(
    alive: bool, interrupted: bool
) -> None:
    store = MemoryStore()
    running = begin_attempt(a_state("a"), TEN, "stranger", "occurrence")
    await store.write_all([write_task(running, None)])
    living = Living(*(["stranger"] if alive else []))
    intake = await decide(store, living, a="0 9 * * *")
    assert living.asked == 1
    assert intake.tasks["a"].reconciled.is_interrupted is interrupted


@pytest.mark.clause("D-53")
async def test_without_strangers_nobody_is_asked(store: MemoryStore) -> None:
    living = Living()
    await decide(store, living, kept="0 9 * * *")
    assert living.asked == 0


class BusyStore(MemoryStore):
    """Another instance writes first, so many times."""

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


@pytest.mark.clause("D-54", "P-9")
async def test_a_decision_that_came_too_late_is_taken_anew() -> None:
    store = await make_busy(ATTEMPTS - 1)
    await carry_out(TaskLedger(store), accept(a="1 9 * * *"), DECLARATIVE, MOMENT, Living("me"))
    (document,) = (await store.read(TASKS, ["a"])).values()
    assert b'"1 9 * * *"' in document.body


@pytest.mark.clause("D-54", "P-9")
async def test_but_not_for_ever() -> None:
    store = await make_busy(ATTEMPTS)
    with pytest.raises(TaskListMismatchError):
        await carry_out(TaskLedger(store), accept(a="1 9 * * *"), DECLARATIVE, MOMENT, Living("me"))


@pytest.mark.clause("D-49", "P-7")
async def test_when_only_broken_records_are_cleared_away_one_of_them_is_named() -> None:
    class FailingStore(MemoryStore):
        async def write_all(self, writes: object) -> None:  # noqa: ARG002 - as the protocol
            raise OSError("no space")

    store = FailingStore()
    await store.write_each([DocumentWrite(TASKS, "broken", None, b"?")])
    with pytest.raises(ScheduleTaskError, match="Failed to schedule task 'broken': no space"):
        await carry_out(TaskLedger(store), {}, DECLARATIVE, MOMENT, Living())
