"""Callers that write together: grouped, answered one by one, and tried again."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import asyncpg
import pytest

from rota.errors import StaleVersionError, StoreError, StoreUnavailableError
from rota.stores.documents import Versions
from rota.stores.postgres import documents as writer_module
from rota.stores.postgres.connections import TRY_COUNT, Session
from rota.stores.postgres.documents import write_each
from rota.stores.postgres.store import PostgresStore
from rota.stores.protocol import DocumentWrite

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
New = Callable[..., DocumentWrite]


class Spy:
    """Stands in for ``write_each``: notes the size of each group, and fails as it is told."""

    def __init__(self, failures: Sequence[Exception] = ()) -> None:
        self.sizes: list[int] = []
        self._failures = iter(failures)

    async def __call__(self, session: Session, writes: Sequence[DocumentWrite]) -> Versions:
        self.sizes.append(len(writes))
        failure = next(self._failures, None)
        if failure is not None:
            raise failure
        return await write_each(session, writes)


def spy_on(monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> Spy:
    spy = Spy(failures)
    monkeypatch.setattr(writer_module, "write_each", spy)
    return spy


async def test_callers_of_one_moment_share_a_transaction(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = spy_on(monkeypatch)
    answers = await asyncio.gather(*(store.write_each([new(f"{n}")]) for n in range(100)))
    assert answers == [[1]] * 100
    assert spy.sizes == [100]


async def test_a_group_does_not_grow_without_bound(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_AT_ONCE", 4)
    spy = spy_on(monkeypatch)
    calls = [[new(f"{n}-{part}") for part in range(3)] for n in range(4)]
    await asyncio.gather(*map(store.write_each, calls))
    assert sorted(spy.sizes) == [6, 6]


async def test_a_writer_waiting_for_another_program_delays_no_other(
    store: PostgresStore, new: New, other: Connection
) -> None:
    await store.write_each([new("locked")])
    await other.execute("BEGIN")
    await other.execute("SELECT 1 FROM documents WHERE key = 'locked' FOR UPDATE")
    change = DocumentWrite("tasks", "locked", 1, b"changed")
    waiting = asyncio.ensure_future(store.write_each([change]))
    await asyncio.wait([waiting], timeout=0)
    assert await store.write_each([new("free")]) == [1]
    assert not waiting.done()
    await other.execute("COMMIT")
    assert await waiting == [2]


async def test_a_group_that_the_server_gave_up_is_tried_again(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = spy_on(monkeypatch, *(asyncpg.DeadlockDetectedError("x") for _ in range(4)))
    assert await store.write_each([new("a")]) == [1]
    assert spy.sizes == [1] * 5


async def test_a_group_is_not_retried_forever(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = spy_on(monkeypatch, *(asyncpg.SerializationError("x") for _ in range(9)))
    with pytest.raises(StoreUnavailableError, match="others were writing to the same documents"):
        await store.write_each([new("a")])
    assert spy.sizes == [1] * TRY_COUNT


async def test_a_call_that_cannot_be_carried_out_takes_no_other_down(
    store: PostgresStore, new: New
) -> None:
    impossible: Any = DocumentWrite("tasks", "b", 2**70, b"")
    answers = await asyncio.gather(
        store.write_each([new("a")]),
        store.write_each([impossible]),
        store.write_each([new("c")]),
        return_exceptions=True,
    )
    assert answers[0] == answers[2] == [1]
    assert isinstance(answers[1], StoreError)


async def test_each_caller_gets_its_own_error(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy_on(monkeypatch, asyncpg.DiskFullError("x"))
    calls = (store.write_each([new(f"{n}")]) for n in range(5))
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert {str(error) for error in errors} == {str(errors[0])}
    assert "the server's disk is full" in str(errors[0])
    assert len(set(map(id, errors))) == 5
    assert all(isinstance(e, StoreError) and e.__cause__ for e in errors)


async def test_an_unexpected_error_reaches_every_caller(
    store: PostgresStore, new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy_on(monkeypatch, *(KeyError("x") for _ in range(3)))
    calls = (store.write_each([new(f"{n}")]) for n in range(2))
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in errors] == [KeyError, KeyError]


async def test_stores_that_write_the_same_documents_in_other_orders_do_not_fail(
    store: PostgresStore, postgres_settings: Any
) -> None:
    keys = [f"{number:03}" for number in range(200)]
    await store.write_each([DocumentWrite("tasks", key, None, b"") for key in keys])
    second = await PostgresStore.open(postgres_settings)
    for version in range(1, 11):
        changes = [DocumentWrite("tasks", key, version, b"") for key in keys]
        outcomes = await asyncio.gather(store.write_each(changes), second.write_each(changes[::-1]))
        winners = [
            sorted(map(bool, pair)) for pair in zip(outcomes[0], outcomes[1][::-1], strict=True)
        ]
        assert winners == [[False, True]] * 200
    await second.close()


async def test_absence_that_was_demanded_lasts_until_the_transaction_ends(
    store: PostgresStore, new: New, postgres_settings: Any
) -> None:
    """Each of two makes what the other demands not to be there: at most one may have its way."""
    second = await PostgresStore.open(postgres_settings)
    for number in range(20):
        one, two = f"{number}-one", f"{number}-two"
        outcomes = await asyncio.gather(
            store.write_all([DocumentWrite("tasks", one, None, None), new(two)]),
            second.write_all([DocumentWrite("tasks", two, None, None), new(one)]),
            return_exceptions=True,
        )
        assert outcomes.count(None) <= 1
        refused = (StaleVersionError, StoreUnavailableError)
        assert all(outcome is None or isinstance(outcome, refused) for outcome in outcomes)
        assert len(await store.read("tasks", [one, two])) == outcomes.count(None)
    await second.close()
