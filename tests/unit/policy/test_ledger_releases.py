"""A claim that was released is not mistaken for a later one: versions do not start again."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.policy.once import EFFECTS, Ledger, begin_effect, document_key, encode_effect
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

Release = Callable[[Ledger], Awaitable[Any]]


class Paused(MemoryStore):
    """A store on which one write waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: asyncio.Event | None = None

    async def write_each(self, writes: Any) -> list[int | None]:
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.wait()
        return await super().write_each(writes)


async def fail(ledger: Ledger) -> None:
    """The effect begins and fails, so that its claim is given back."""

    def refuse() -> None:
        raise ConnectionError("reset")

    with pytest.raises(ConnectionError):
        await ledger.once("t", "k", refuse)


async def forget(ledger: Ledger) -> None:
    await ledger.forget("t", "k")


@pytest.mark.parametrize("release", [fail, forget])
async def test_a_claim_that_was_released_cannot_be_taken_over_later(release: Release) -> None:
    """A slow caller has read an expired claim; before it writes, another one is released and taken.

    Its write is decided on a version that must not come back.
    """
    store, clock = Paused(), VirtualClock(NOW)
    ledger = Ledger(store, clock)
    await leave_expired_claim(store)
    performing: list[str] = []

    async def perform(name: str) -> str:
        performing.append(name)
        await clock.sleep(MINUTE / 2)
        return name

    store.gate = gate = asyncio.Event()
    slow = asyncio.ensure_future(ledger.once("t", "k", lambda: perform("slow")))
    await clock.advance(timedelta(0))
    await release(ledger)
    quick = asyncio.ensure_future(ledger.once("t", "k", lambda: perform("quick")))
    await clock.advance(timedelta(0))
    gate.set()
    await clock.advance(MINUTE)
    assert performing == ["quick"]
    assert [await quick, await slow] == ["quick", "quick"]


async def leave_expired_claim(store: MemoryStore) -> None:
    """A host has claimed the effect, and is never heard of again."""
    claim = begin_effect("t", "k", "lost", NOW - 2 * MINUTE, MINUTE)
    write = DocumentWrite(EFFECTS, document_key("t", "k"), None, encode_effect(claim))
    assert await store.write_each([write]) == [1]


async def test_a_released_entry_is_pruned_like_one_that_is_unknown() -> None:
    store, clock = MemoryStore(), VirtualClock(NOW)
    ledger = Ledger(store, clock)
    await fail(ledger)
    assert await ledger.prune(NOW) == 0
    assert await ledger.prune(NOW + MINUTE) == 1


async def test_an_entry_that_cannot_be_read_can_be_forgotten() -> None:
    store = MemoryStore()
    ledger = Ledger(store, VirtualClock(NOW))
    await store.write_each([DocumentWrite(EFFECTS, document_key("t", "k"), None, b"{")])
    assert await ledger.forget("t", "k")
    assert await ledger.once("t", "k", lambda: 1) == 1
