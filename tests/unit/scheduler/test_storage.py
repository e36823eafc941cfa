from datetime import UTC, datetime

import pytest

from rota import parse_cron
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.storage import (
    SET_ASIDE,
    TASKS,
    BrokenRecord,
    StoredTask,
    encode_task,
    find_tasks,
    interpret,
    keep_aside,
    scan_tasks,
    write_task,
)
from rota.scheduler.task import TaskState
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
CRON = parse_cron("* * * * *")


async def nothing() -> None:
    """A callback."""


def a_state(name: str = "a") -> TaskState:
    return TaskState(name=name, cron_expression="* * * * *", retry_delay_ms=5, running=False)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


async def test_a_broken_record_does_not_stop_a_scan(store: MemoryStore) -> None:
    await store.write_all([write_task(a_state("a"), None), write_task(a_state("c"), None)])
    await store.write_all([DocumentWrite(TASKS, "b", None, b"broken")])
    found = [it async for it in scan_tasks(store)]
    assert [type(it) for it in found] == [StoredTask, BrokenRecord, StoredTask]
    assert isinstance(found[1], BrokenRecord)
    assert found[1].body == b"broken"


async def test_a_scan_completes_what_is_registered_and_only_that(store: MemoryStore) -> None:
    await store.write_all(
        [DocumentWrite(TASKS, name, None, b'{"name":"%s"}' % name.encode()) for name in "ab"]
    )
    accepted = {"a": AcceptedTask("a", CRON, nothing, 7)}
    one, two = [it async for it in scan_tasks(store, accepted)]
    assert isinstance(one, StoredTask)
    assert (one.state.retry_delay_ms, one.is_foreign) == (7, True)
    assert isinstance(two, BrokenRecord)


def test_a_record_under_another_name_is_broken() -> None:
    found = interpret(Document("a", 1, encode_task(a_state("b"))), {})
    assert isinstance(found, BrokenRecord)
    assert found.error.message == ("Invalid value for field 'name': the record is kept under \"a\"")


async def test_missing_tasks_are_not_found(store: MemoryStore) -> None:
    assert await find_tasks(store, ["a"]) == {}


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
