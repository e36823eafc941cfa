"""Effects that happen effectively once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota import open_store
from rota.errors import (
    EffectInProgressError,
    EffectUnknownError,
    InvalidInputError,
    StoreUnavailableError,
)
from rota.policy.once import EffectState, Ledger, OnCrash
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[OpenStore]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'rota.db'}"
    async with await open_store(url) as opened:
        yield opened


@pytest.fixture
def ledger(store: OpenStore, clock: VirtualClock) -> Ledger:
    return Ledger(store, clock)


class Sends:
    """An effect that counts, takes its time, and fails as often as it is told."""

    def __init__(self, clock: VirtualClock, lasts_for: timedelta = timedelta(0)) -> None:
        self.count = 0
        self.failure_count = 0
        self._clock = clock
        self._lasts_for = lasts_for

    async def __call__(self) -> dict[str, int]:
        self.count += 1
        await self._clock.sleep(self._lasts_for)
        if self.failure_count:
            self.failure_count -= 1
            raise ConnectionError("reset")
        return {"message": self.count}


async def settle(clock: VirtualClock, work: Awaitable[Any], within: timedelta = MINUTE) -> Any:
    """Let time flow until the work is done."""
    task = asyncio.ensure_future(work)
    await clock.advance(within)
    assert task.done()
    return await task


async def test_a_done_effect_is_not_repeated_and_its_result_is_kept(
    ledger: Ledger, clock: VirtualClock
) -> None:
    send = Sends(clock)
    for _ in range(3):
        assert await ledger.once("guild-7", "k", send) == {"message": 1}
    assert send.count == 1
    assert await ledger.once("guild-7", "other", send) == {"message": 2}
    assert await ledger.once("guild-8", "k", send) == {"message": 3}


async def test_an_action_may_be_a_plain_function(ledger: Ledger) -> None:
    assert await ledger.once("t", "k", lambda: (1, "two")) == [1, "two"]
    assert await ledger.once("t", "k", lambda: "another") == [1, "two"]


async def test_of_many_at_once_one_acts_and_all_have_its_result(
    ledger: Ledger, clock: VirtualClock
) -> None:
    send = Sends(clock, 5 * SECOND)
    calls = asyncio.gather(*(ledger.once("t", "k", send) for _ in range(10)))
    assert await settle(clock, calls) == [{"message": 1}] * 10
    assert send.count == 1


async def test_an_action_that_takes_long_keeps_its_claim(
    ledger: Ledger, clock: VirtualClock
) -> None:
    send = Sends(clock, 10 * MINUTE)
    first = asyncio.ensure_future(ledger.once("t", "k", send))
    await clock.advance(5 * MINUTE)
    second = asyncio.ensure_future(ledger.once("t", "k", send))
    await clock.advance(6 * MINUTE)
    assert (await first, await second) == ({"message": 1}, {"message": 1})
    assert send.count == 1


async def test_a_caller_that_does_not_wait_gives_way(ledger: Ledger, clock: VirtualClock) -> None:
    send = Sends(clock, 30 * SECOND)
    first = asyncio.ensure_future(ledger.once("t", "k", send))
    await clock.advance(SECOND)
    with pytest.raises(EffectInProgressError) as busy:
        await ledger.once("t", "k", send, wait_for=timedelta(0))
    assert busy.value.until == NOW + MINUTE
    waiting = asyncio.ensure_future(ledger.once("t", "k", send, wait_for=2.5 * SECOND))
    await clock.advance(2 * SECOND)
    assert not waiting.done()
    await clock.advance(SECOND)
    with pytest.raises(EffectInProgressError):
        await waiting
    await settle(clock, first)


@pytest.mark.parametrize("on_crash", ["at_least_once", "at_most_once"])
async def test_after_a_crash_the_caller_has_chosen_twice_or_never(
    store: OpenStore, clock: VirtualClock, on_crash: OnCrash
) -> None:
    await crash_in_between(store, clock)
    ledger, send = Ledger(store, clock), Sends(clock)
    later = asyncio.ensure_future(ledger.once("t", "k", send, on_crash=on_crash))
    await clock.advance(MINUTE - SECOND)
    assert not later.done()
    await clock.advance(2 * SECOND)
    if on_crash == "at_least_once":
        assert await later == {"message": 1}
    else:
        with pytest.raises(EffectUnknownError) as unknown:
            await later
        assert (unknown.value.started_at, send.count) == (NOW, 0)


class CutOff:
    """A store, seen from a host that may lose its connection."""

    def __init__(self, store: OpenStore) -> None:
        self._store = store
        self.reach = store.reach
        self.is_cut = False

    async def read(self, *arguments: Any) -> Any:
        if self.is_cut:
            raise StoreUnavailableError("cut off")
        return await self._store.read(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def crash_in_between(store: OpenStore, clock: VirtualClock) -> None:
    """A process claims an effect and is never heard of again."""
    mortal: Any = CutOff(store)

    async def die() -> None:
        mortal.is_cut = True
        raise SystemError("gone")

    with pytest.raises(SystemError):
        await Ledger(mortal, clock).once("t", "k", die)


async def test_a_failed_action_can_be_repeated_at_once(ledger: Ledger, clock: VirtualClock) -> None:
    send = Sends(clock)
    send.failure_count = 2
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await ledger.once("t", "k", send)
        assert await ledger.find("t", "k") is None
    assert await ledger.once("t", "k", send) == {"message": 3}


async def test_an_action_that_failed_may_have_had_its_effect_and_is_not_repeated_at_most_once(
    ledger: Ledger, clock: VirtualClock
) -> None:
    send = Sends(clock)
    send.failure_count = 1
    with pytest.raises(ConnectionError):
        await ledger.once("t", "k", send, on_crash="at_most_once")
    for _ in range(2):
        with pytest.raises(EffectUnknownError):
            await ledger.once("t", "k", send, on_crash="at_most_once")
    assert await ledger.forget("t", "k")
    assert not await ledger.forget("t", "k")
    assert await ledger.once("t", "k", send, on_crash="at_most_once") == {"message": 2}


async def test_an_effect_can_be_recorded_by_hand(ledger: Ledger, clock: VirtualClock) -> None:
    send = Sends(clock)
    send.failure_count = 1
    with pytest.raises(ConnectionError):
        await ledger.once("t", "k", send, on_crash="at_most_once")
    await ledger.confirm("t", "k", {"message": 99})
    assert await ledger.once("t", "k", send, on_crash="at_most_once") == {"message": 99}


async def test_a_cancelled_action_gives_its_claim_back(ledger: Ledger, clock: VirtualClock) -> None:
    task = asyncio.ensure_future(ledger.once("t", "k", Sends(clock, MINUTE)))
    await clock.advance(SECOND)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await ledger.find("t", "k") is None


async def test_an_effect_taken_over_is_recorded_once(store: OpenStore, clock: VirtualClock) -> None:
    """A holder was silent for too long; when it wakes, both have acted and one result stands."""
    host: Any = CutOff(store)

    async def slow() -> str:
        host.is_cut = True
        await clock.sleep(2.5 * MINUTE)
        host.is_cut = False
        return "slow"

    first = asyncio.ensure_future(Ledger(host, clock).once("t", "k", slow))
    await clock.advance(2 * MINUTE)
    assert await Ledger(store, clock).once("t", "k", lambda: "quick") == "quick"
    assert await settle(clock, first) == "quick"


async def test_an_effect_that_happened_is_recorded_over_another_claim(
    store: OpenStore, clock: VirtualClock
) -> None:
    host: Any = CutOff(store)

    async def slow() -> str:
        host.is_cut = True
        await clock.sleep(2.5 * MINUTE)
        host.is_cut = False
        return "slow"

    first = asyncio.ensure_future(Ledger(host, clock).once("t", "k", slow))
    await clock.advance(2 * MINUTE)
    second = asyncio.ensure_future(Ledger(store, clock).once("t", "k", Sends(clock, MINUTE)))
    assert await settle(clock, first) == "slow"
    assert await settle(clock, second, MINUTE) == "slow"


async def test_a_result_that_cannot_be_stored_is_reported_once_and_the_effect_stands(
    ledger: Ledger,
) -> None:
    for result in (object(), "x" * 70_000):
        with pytest.raises(InvalidInputError, match=r"^result "):
            await ledger.once("t", str(type(result)), lambda value=result: value)  # type: ignore[misc] # the default binds it
        assert await ledger.once("t", str(type(result)), lambda: "again") is None


async def test_old_effects_can_be_forgotten(ledger: Ledger, clock: VirtualClock) -> None:
    await ledger.once("t", "old", lambda: 1)
    running = asyncio.ensure_future(ledger.once("t", "running", Sends(clock, 2 * MINUTE)))
    await clock.advance(MINUTE)
    await ledger.once("t", "new", lambda: 2)
    assert await ledger.prune(NOW + MINUTE) == 1
    assert await ledger.find("t", "old") is None
    new = await ledger.find("t", "new")
    assert new is not None
    assert (new.state, new.result) == (EffectState.DONE, 2)
    await settle(clock, running, 2 * MINUTE)


async def test_an_invalid_effect_is_refused_before_anything_happens(ledger: Ledger) -> None:
    def never() -> None:
        raise AssertionError("it was called")

    with pytest.raises(InvalidInputError, match=r"^key "):
        await ledger.once("t", "", never)
    with pytest.raises(InvalidInputError, match=r"^on_crash must be one of at_least_once, at_most"):
        await ledger.once("t", "k", never, on_crash="maybe")  # type: ignore[arg-type] # the point


async def test_a_renewal_that_fails_is_tried_again(clock: VirtualClock) -> None:
    class Shaky(MemoryStore):
        failures = 0

        async def write_each(self, writes: Any) -> list[int | None]:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailableError("away")
            return await super().write_each(writes)

    store = Shaky()
    ledger = Ledger(store, clock)
    task = asyncio.ensure_future(ledger.once("t", "k", Sends(clock, 3 * MINUTE)))
    await clock.advance(SECOND)
    store.failures = 1
    await clock.advance(MINUTE)
    held = await ledger.find("t", "k")
    assert held is not None
    assert held.until > clock.now()
    assert await settle(clock, task, 3 * MINUTE) == {"message": 1}


async def test_a_renewal_under_way_does_not_hide_the_end(clock: VirtualClock) -> None:
    """Another write slips in between reading and writing the end of a failed action."""

    class Racing(MemoryStore):
        slips: Callable[[DocumentWrite], Awaitable[Any]] | None = None

        async def write_each(self, writes: Any) -> list[int | None]:
            slip, self.slips = self.slips, None
            if slip is not None:
                await slip(writes[0])
            return await super().write_each(writes)

    store = Racing()
    ledger = Ledger(store, clock)

    async def renew(write: DocumentWrite) -> None:
        document = (await store.read("effects", [write.key]))[write.key]
        await store.write_each([write._replace(expected=document.version, body=document.body)])

    async def fail() -> None:
        store.slips = renew
        raise ConnectionError("reset")

    async def act() -> str:
        store.slips = renew
        return "done"

    with pytest.raises(ConnectionError):
        await ledger.once("t", "failed", fail)
    assert await ledger.find("t", "failed") is None
    assert await ledger.once("t", "done", act) == "done"
