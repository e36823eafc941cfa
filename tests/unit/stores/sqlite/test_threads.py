"""Group commit, full disks, and callers that go away."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import apsw
import pytest

from rota.errors import (
    DuplicateJobError,
    JobNotFoundError,
    StoreUnavailableError,
    UnknownDependencyError,
)
from rota.stores.protocol import DocumentWrite
from rota.stores.sqlite import threads
from rota.stores.sqlite.connection import SqliteSettings
from rota.stores.sqlite.documents import apply_each
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, a_request

New = Callable[..., DocumentWrite]


def count_commits(store: SqliteStore) -> list[None]:
    """A list that grows by one with each commit from now on."""
    commits: list[None] = []

    def note() -> bool:
        commits.append(None)
        return False

    store._writer._connection.set_commit_hook(note)
    return commits


async def start(*calls: Any) -> list["asyncio.Task[Any]"]:
    """Hand all calls over without waiting for any."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.wait(tasks, timeout=0)
    return tasks


async def test_calls_that_wait_together_are_committed_together(
    store: SqliteStore, new: New, gate: Any
) -> None:
    commits = count_commits(store)
    (busy,) = await start(store.write_all(gate))
    waiting = await start(*(store.write_each([new(f"{number}")]) for number in range(50)))
    gate.opened.set()
    await busy
    assert await asyncio.gather(*waiting) == [[1]] * 50
    assert len(commits) == 2  # one for the gate, one for all the others


async def test_a_call_at_a_quiet_moment_goes_at_once(store: SqliteStore, new: New) -> None:
    commits = count_commits(store)
    for number in range(3):
        assert await store.write_each([new(f"{number}")]) == [1]
    assert len(commits) == 3


async def test_a_lone_new_job_is_one_statement(store: SqliteStore) -> None:
    commits = count_commits(store)
    statements: list[str] = []

    def note(_cursor: Any, statement: str, _values: Any) -> bool:
        statements.append(statement.split(maxsplit=1)[0])
        return True

    store._writer._connection.exec_trace = note
    job = a_job()
    await store.insert([job], NOW)
    assert (statements, len(commits)) == (["INSERT"], 1)
    await store.insert([job], NOW)  # it exists: the kernel decides
    assert statements[1:3] == ["INSERT", "BEGIN"]
    assert await store.count(job.tenant) == 1


async def test_new_jobs_that_wait_together_share_a_transaction(
    store: SqliteStore, gate: Any
) -> None:
    commits = count_commits(store)
    (busy,) = await start(store.write_all(gate))
    waiting = await start(*(store.insert([a_job()], NOW) for _ in range(20)))
    gate.opened.set()
    await asyncio.gather(busy, *waiting)
    assert len(commits) == 2


async def test_a_shared_transaction_stays_short(
    store: SqliteStore, new: New, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MOST_WRITES_TOGETHER", 10)
    commits = count_commits(store)
    (busy,) = await start(store.write_all(gate))
    waiting = await start(
        *(store.write_each([new(f"{n}-{i}") for i in range(5)]) for n in range(7))
    )
    gate.opened.set()
    await asyncio.gather(busy, *waiting)
    assert len(commits) == 5  # one for the gate, then 10 + 10 + 10 + 5 writes


@pytest.mark.parametrize(
    ("unfit", "error"), [("text", StoreUnavailableError), (object(), TypeError)]
)
async def test_a_call_that_fails_takes_no_other_down(
    store: SqliteStore, new: New, gate: Any, unfit: Any, error: type[Exception]
) -> None:
    (busy,) = await start(store.write_all(gate))
    waiting = await start(
        store.write_each([new("a")]),
        store.write_each([new("b"), new("c", unfit)]),
        store.write_each([new("d")]),
    )
    gate.opened.set()
    await busy
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes[0] == outcomes[2] == [1]
    assert type(outcomes[1]) is error
    assert sorted(await store.read("tasks", ["a", "b", "c", "d"])) == ["a", "d"]


async def test_a_refusal_costs_the_others_nothing(store: SqliteStore, new: New, gate: Any) -> None:
    """Nothing was written by what is refused: the rest of the transaction stands."""
    commits = count_commits(store)
    (busy,) = await start(store.write_all(gate))
    missing = a_job()
    waiting = await start(
        store.insert([a_job()], NOW),
        store.insert([a_job(), a_job(dependencies=[missing.id])], NOW),
        store.delete("default", missing.id),
        store.write_each([new("a")]),
        store.lease(a_request(), NOW),
    )
    gate.opened.set()
    await busy
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [list, UnknownDependencyError, JobNotFoundError, list, list]
    assert isinstance(outcomes[4], list)
    assert len(outcomes[4]) == 1
    assert len(commits) == 2


async def test_a_refusal_that_comes_late_undoes_its_own_writes_only(
    store: SqliteStore, gate: Any
) -> None:
    """The first job had been written when the second was found to clash."""
    await store.insert([a_job(idempotency_key="key", payload=1)], NOW)
    (busy,) = await start(store.write_all(gate))
    waiting = await start(
        store.insert([a_job()], NOW),
        store.insert([a_job(), a_job(idempotency_key="key", payload=2)], NOW),
        store.insert([a_job()], NOW),
    )
    gate.opened.set()
    await busy
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, DuplicateJobError, list]
    assert await store.count("default") == 3


async def test_a_refused_call_undoes_its_earlier_writes(
    store: SqliteStore, new: New, gate: Any
) -> None:
    """Then the transaction cannot stand, and each call has one of its own."""

    def write_and_refuse(connection: apsw.Connection) -> None:
        apply_each(connection, [new("half")])
        raise JobNotFoundError("half")

    (busy,) = await start(store.write_all(gate))
    waiting = await start(
        store.write_each([new("a")]),
        store._writer.run(write_and_refuse),
        store.write_each([new("b")]),
    )
    gate.opened.set()
    await busy
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, JobNotFoundError, list]
    assert sorted(await store.read("tasks", ["a", "b", "half"])) == ["a", "b"]


async def test_listeners_are_woken_though_the_caller_was_cancelled(
    store: SqliteStore, gate: Any
) -> None:
    (busy,) = await start(store.write_all(gate))
    async with store.listen() as listener:
        (cancelled,) = await start(store.insert([a_job()], NOW))
        cancelled.cancel()
        gate.opened.set()
        await asyncio.wait_for(listener.wait(), 10)
    await busy


async def test_a_full_disk_is_reported_and_leaves_nothing_half_written(
    store: SqliteStore, new: New
) -> None:
    connection = store._writer._connection
    connection.pragma("max_page_count", connection.pragma("page_count") + 8)
    large = [new(f"{number:03}", bytes(4_096)) for number in range(100)]
    for call in (store.write_each(large), store.write_all(large)):
        with pytest.raises(StoreUnavailableError, match="disk is full") as caught:
            await call
        assert isinstance(caught.value.__cause__, apsw.FullError)
    assert [page async for page in store.scan("tasks")] == []
    assert await store.write_each([new("small")]) == [1]
    connection.pragma("max_page_count", 1_000_000)
    assert await store.write_each(large) == [1] * 100


async def test_on_a_full_disk_small_calls_succeed_beside_large_ones(
    store: SqliteStore, new: New, gate: Any
) -> None:
    connection = store._writer._connection
    connection.pragma("max_page_count", connection.pragma("page_count") + 8)
    (busy,) = await start(store.write_all(gate))
    waiting = await start(
        store.write_each([new(f"{number:03}", bytes(4_096)) for number in range(100)]),
        store.write_each([new("small")]),
    )
    gate.opened.set()
    await busy
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes[0], StoreUnavailableError)
    assert outcomes[1] == [1]


async def test_a_file_that_turns_read_only_is_reported_and_works_again_afterwards(
    store: SqliteStore, new: New
) -> None:
    store._writer._connection.pragma("query_only", value=True)
    with pytest.raises(StoreUnavailableError, match="read-only"):
        await store.write_each([new("a")])
    store._writer._connection.pragma("query_only", value=False)
    assert await store.write_each([new("a")]) == [1]


async def test_a_write_is_carried_out_though_its_caller_was_cancelled(
    store: SqliteStore, new: New, gate: Any
) -> None:
    (busy,) = await start(store.write_all(gate))
    cancelled, other = await start(store.write_each([new("a")]), store.write_each([new("b")]))
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert cancelled.cancelled()
    gate.opened.set()
    await busy
    assert await other == [1]
    assert sorted(await store.read("tasks", ["a", "b"])) == ["a", "b"]


def test_an_answer_for_a_loop_that_was_closed_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    answer: asyncio.Future[list[int | None]] = loop.create_future()
    loop.close()
    threads._answer([threads.Call(bool, answer, loop)], [[]])
    assert not answer.done()


async def test_the_caller_may_reuse_its_list_at_once(store: SqliteStore, new: New) -> None:
    writes = [new("a")]
    (call,) = await start(store.write_each(writes))
    writes[:] = [new("b"), new("c")]
    assert await call == [1]
    assert sorted(await store.read("tasks", ["a", "b", "c"])) == ["a"]


async def test_a_file_that_cannot_be_watched_is_let_go(
    sqlite_settings: SqliteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(settings: SqliteSettings) -> apsw.Connection:
        raise StoreUnavailableError(f"{settings.path} is out of reach", {})

    monkeypatch.setattr(threads, "open_watch", refuse)
    before_count = len(apsw.connections())
    with pytest.raises(StoreUnavailableError):
        await SqliteStore.open(sqlite_settings)
    assert len(apsw.connections()) == before_count


async def test_an_interrupt_of_a_caller_that_writes_leaves_the_file_unlocked(
    store: SqliteStore,
) -> None:
    """A signal may raise after any call, so here each of them raises in turn."""

    class Interrupt(BaseException):
        pass

    def interrupt_after(left: int) -> Callable[..., None]:
        def watch(_frame: object, event: str, _argument: object) -> None:
            nonlocal left
            left -= event == "c_return"
            if not left:
                sys.setprofile(None)
                raise Interrupt

        return watch

    count, is_interrupted = 0, True
    while is_interrupted:
        count += 1
        sys.setprofile(interrupt_after(count))
        try:
            store.insert_here(a_job(id=f"{count}"), NOW)
            is_interrupted = False
        except Interrupt:
            pass
        finally:
            sys.setprofile(None)
        assert store.insert_here(a_job(id=f"after-{count}"), NOW)
    assert count > 4
