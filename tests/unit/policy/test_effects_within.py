"""Effects that are recorded in the transaction that brings them about."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.policy.conftest import Caller, Shop

from rota.errors import (
    EffectInProgressError,
    EffectUnknownError,
    InvalidInputError,
    StoreUnavailableError,
    UnsupportedConnectionError,
)
from rota.policy.once import EffectState, Ledger, OnCrash
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SOON = 10.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
def ledger(shop: Shop, clock: VirtualClock) -> Ledger:
    return Ledger(shop.store, clock)


async def act(ledger: Ledger, caller: Caller, result: Any = "done") -> Any:
    """What an attempt does in its transaction."""

    async def work() -> Any:
        await caller.do_work()
        return result

    return await ledger.once_within(caller.connection, "t", "k", work)


async def test_work_and_entry_are_committed_together_and_not_repeated(
    ledger: Ledger, caller: Caller, rival: Caller
) -> None:
    await caller.run("BEGIN")
    assert await act(ledger, caller, (1, "two")) == [1, "two"]
    assert (await ledger.find("t", "k"), await rival.count_work()) == (None, 0)
    await caller.run("COMMIT")
    done = await ledger.find("t", "k")
    assert done is not None
    assert (done.state, done.started_at, done.ended_at) == (EffectState.DONE, NOW, NOW)
    for again in (caller, rival):
        await again.run("BEGIN")
        assert await act(ledger, again, "another") == [1, "two"]
        await again.run("COMMIT")
    assert await ledger.once("t", "k", lambda: "another") == [1, "two"]
    assert await rival.count_work() == 1


async def test_rolled_back_neither_is_there_and_another_attempt_does_it(
    ledger: Ledger, caller: Caller
) -> None:
    await caller.run("BEGIN")
    await act(ledger, caller, "first")
    await caller.run("ROLLBACK")
    assert (await ledger.find("t", "k"), await caller.count_work()) == (None, 0)
    await caller.run("BEGIN")
    assert await act(ledger, caller, "second") == "second"
    await caller.run("COMMIT")
    assert await caller.count_work() == 1


async def test_a_crash_before_the_commit_leaves_neither(
    ledger: Ledger, caller: Caller, rival: Caller
) -> None:
    await caller.run("BEGIN")
    await act(ledger, caller, "dead")
    await caller.die()
    await rival.run("BEGIN")
    assert await act(ledger, rival, "alive") == "alive"
    await rival.run("COMMIT")
    assert await rival.count_work() == 1


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_of_two_racing_attempts_one_does_the_work(
    shop: Shop, ledger: Ledger, caller: Caller, rival: Caller, end: str
) -> None:
    for each in (caller, rival):
        await each.run("BEGIN")
    await act(ledger, caller, "first")
    if shop.waits:
        racing = asyncio.ensure_future(act(ledger, rival, "second"))
        assert (await asyncio.wait([racing], timeout=0.1))[1] == {racing}
        await caller.run(end)
        async with asyncio.timeout(SOON):
            result = await racing
    else:
        with pytest.raises(StoreUnavailableError, match="locked"):
            await act(ledger, rival, "second")
        await caller.run(end)
        result = await act(ledger, rival, "second")
    await rival.run("COMMIT")
    assert result == ("first" if end == "COMMIT" else "second")
    assert await rival.count_work() == 1


async def test_a_transaction_that_sees_the_past_cannot_do_it_again(
    shop: Shop, ledger: Ledger, caller: Caller, rival: Caller
) -> None:
    """It began before the other's commit, and its view of the database stays what it was."""
    await rival.run("BEGIN ISOLATION LEVEL REPEATABLE READ" if shop.waits else "BEGIN")
    assert await rival.count_work() == 0
    await caller.run("BEGIN")
    await act(ledger, caller)
    await caller.run("COMMIT")
    with pytest.raises(Exception, match=r"serialize|locked"):
        await act(ledger, rival)
    await rival.run("ROLLBACK")
    assert await rival.count_work() == 1


async def test_an_effect_is_had_once_in_the_same_transaction(
    ledger: Ledger, caller: Caller
) -> None:
    await caller.run("BEGIN")
    assert [await act(ledger, caller, number) for number in (1, 2)] == [1, 1]
    await caller.run("COMMIT")
    assert await caller.count_work() == 1


async def test_a_job_claimed_outside_is_not_waited_for(ledger: Ledger, caller: Caller) -> None:
    async def outside() -> str:
        await caller.run("BEGIN")
        with pytest.raises(EffectInProgressError) as busy:
            await act(ledger, caller)
        assert busy.value.until == NOW + MINUTE
        await caller.run("ROLLBACK")
        return "outside"

    assert await ledger.once("t", "k", outside) == "outside"
    assert await caller.count_work() == 0


@pytest.mark.parametrize("on_crash", ["at_least_once", "at_most_once"])
async def test_a_claim_that_ran_out_is_taken_over_or_stays_unknown(
    ledger: Ledger, caller: Caller, on_crash: OnCrash
) -> None:
    """Work that failed but was committed leaves a claim whose outcome is unknown."""
    await caller.run("BEGIN")
    with pytest.raises(ConnectionError):
        await ledger.once_within(caller.connection, "t", "k", fail)
    await caller.run("COMMIT")
    await caller.run("BEGIN")
    if on_crash == "at_least_once":
        assert await act(ledger, caller) == "done"
    else:
        with pytest.raises(EffectUnknownError):
            await ledger.once_within(caller.connection, "t", "k", fail, on_crash=on_crash)
    await caller.run("COMMIT")
    assert await caller.count_work() == (on_crash == "at_least_once")


def fail() -> None:
    raise ConnectionError("reset")


async def test_a_result_that_cannot_be_kept_is_refused_and_undone(
    ledger: Ledger, caller: Caller
) -> None:
    await caller.run("BEGIN")
    with pytest.raises(InvalidInputError, match=r"^result "):
        await act(ledger, caller, object())
    await caller.run("ROLLBACK")
    assert (await ledger.find("t", "k"), await caller.count_work()) == (None, 0)


async def test_an_invalid_effect_is_refused_before_the_action_is_called(
    ledger: Ledger, caller: Caller
) -> None:
    with pytest.raises(UnsupportedConnectionError, match="no transaction"):
        await ledger.once_within(caller.connection, "t", "k", fail)
    with pytest.raises(InvalidInputError, match=r"^key "):
        await ledger.once_within(caller.connection, "t", "", fail)
    with pytest.raises(InvalidInputError, match=r"^on_crash "):
        await ledger.once_within(caller.connection, "t", "k", fail, on_crash="maybe")  # type: ignore[arg-type] # the point


async def test_the_memory_store_has_no_transactions(clock: VirtualClock) -> None:
    store = MemoryStore()
    with pytest.raises(UnsupportedConnectionError, match="memory takes part in no transaction"):
        await Ledger(store, clock).once_within(object(), "t", "k", fail)
    with pytest.raises(UnsupportedConnectionError, match="memory takes part in no transaction"):
        await store.read_within(object(), "effects", ["k"])
