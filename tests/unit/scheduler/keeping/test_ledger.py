from datetime import UTC, datetime

import pytest

from rota import parse_cron
from rota.scheduler.keeping.ledger import (
    REQUESTS,
    SET_ASIDE,
    TASKS,
    BrokenRecord,
    StoredTask,
    TaskLedger,
    interpret,
    keep_aside,
    write_task,
)
from rota.scheduler.running.agenda import Schedule, Task
from rota.scheduler.tasks.record import encode_task
from rota.scheduler.tasks.registration import AcceptedTask
from rota.scheduler.tasks.state import TaskState, begin_attempt
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
CRON = parse_cron("* * * * *")


async def nothing() -> None:
    """A callback."""


def a_state(name: str = "a") -> TaskState:
    return TaskState(name=name, cron_expression="* * * * *", retry_delay_ms=5, running=False)


def a_task(name: str = "a", version: int = 1) -> Task:
    return Task(a_state(name), version, nothing, Schedule(CRON))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.mark.clause("D-47", "D-60")
async def test_a_broken_record_takes_no_other_down(store: MemoryStore) -> None:
    await store.write_all([write_task(a_state("a"), None), write_task(a_state("c"), None)])
    await store.write_all([DocumentWrite(TASKS, "b", None, b"broken")])
    found = [it async for it in TaskLedger(store).scan({})]
    assert [type(it) for it in found] == [StoredTask, BrokenRecord, StoredTask]
    assert isinstance(found[1], BrokenRecord)
    assert found[1].body == b"broken"


@pytest.mark.clause("D-17")
async def test_a_scan_completes_what_is_registered_and_only_that(store: MemoryStore) -> None:
    await store.write_all(
        [DocumentWrite(TASKS, name, None, b'{"name":"%s"}' % name.encode()) for name in "ab"]
    )
    accepted = {"a": AcceptedTask("a", CRON, nothing, 7)}
    one, two = [it async for it in TaskLedger(store).scan(accepted)]
    assert isinstance(one, StoredTask)
    assert (one.state.retry_delay_ms, one.is_foreign) == (7, True)
    assert isinstance(two, BrokenRecord)


@pytest.mark.clause("D-47")
def test_a_record_under_another_name_is_broken() -> None:
    found = interpret(Document("a", 1, encode_task(a_state("b"))), {})
    assert isinstance(found, BrokenRecord)
    assert found.error.message == ("Invalid value for field 'name': the record is kept under \"a\"")


@pytest.mark.clause("D-53", "D-55")
async def test_a_claim_that_comes_too_late_writes_nothing(store: MemoryStore) -> None:
    ledger = TaskLedger(store)
    await store.write_all([write_task(a_state("a"), None), write_task(a_state("b"), None)])
    mine, theirs = [a_task("a"), a_task("b")], [a_task("a")]
    claimed = [begin_attempt(task.state, TEN, "they", "x") for task in theirs]
    assert await ledger.save(theirs, claimed) == [True]
    late = [begin_attempt(task.state, TEN, "I", "x") for task in mine]
    assert await ledger.save(mine, late) == [False, True]
    assert [task.version for task in mine] == [1, 2]
    found = await ledger.find(mine)
    assert isinstance(found["a"], StoredTask)
    assert found["a"].state.scheduler_identifier == "they"


async def test_those_that_are_gone_are_not_found(store: MemoryStore) -> None:
    assert await TaskLedger(store).find([a_task()]) == {}


@pytest.mark.clause("D-60")
async def test_bytes_are_kept_aside_under_a_key_of_their_own(store: MemoryStore) -> None:
    broken = []
    for name, body in (("a", b"1"), ("a", b"2"), ("b", b"1"), ("x" * 255, b"1")):
        record = interpret(Document(name, 1, body), {})
        assert isinstance(record, BrokenRecord)
        broken.append(record)
    await store.write_all([keep_aside(record, "me") for record in broken])
    kept = {it.key: it.body async for page in store.scan(SET_ASIDE) for it in page}
    assert kept == {record.kept_as("me"): record.body for record in broken}
    assert len(kept) == 4


async def test_each_request_is_handed_out_once(store: MemoryStore) -> None:
    ledger = TaskLedger(store)
    assert await ledger.take_requests() == []
    await store.write_all([DocumentWrite(REQUESTS, name, None, b"{}") for name in "ab"])
    assert await ledger.take_requests() == ["a", "b"]
    assert await ledger.take_requests() == []
