"""A store struck by faults."""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.clock.virtual import VirtualClock
from rota.errors import StoreClosedError, StoreUnavailableError
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, Reach
from rota.testing.faults import (
    Failure,
    Fault,
    Faults,
    FaultyStore,
    StoreCall,
    scripted_faults,
    seeded_faults,
)

START = datetime(2030, 1, 1, tzinfo=UTC)
WRITE = DocumentWrite("tasks", "a", None, b"")


def struck(faults: Faults) -> tuple[FaultyStore, MemoryStore]:
    inner = MemoryStore()
    return FaultyStore(inner, VirtualClock(START), faults), inner


async def scan(store: FaultyStore) -> int:
    return sum([len(page) async for page in store.scan("tasks")])


async def test_calls_without_a_fault_pass_through() -> None:
    store, inner = struck(scripted_faults({}))
    async with store:
        assert await store.write_each([WRITE]) == [1]
        await store.write_all([WRITE._replace(key="b")])
        assert sorted(await store.read("tasks", ["a", "b"])) == ["a", "b"]
        assert await scan(store) == 2
        assert store.call_count == 5  # the scan asked for one page, and for another in vain
        assert store.injected == []
        assert store.reach is Reach.PROCESS
    with pytest.raises(StoreClosedError):
        await inner.read("tasks", ["a"])


@pytest.mark.parametrize("failure", list(Failure))
@pytest.mark.parametrize("verb", ["write_each", "write_all"])
async def test_a_write_fails_before_or_after_it_was_carried_out(
    failure: Failure, verb: str
) -> None:
    store, inner = struck(scripted_faults({1: Fault(failure)}))
    call: Awaitable[Any] = getattr(store, verb)([WRITE])
    with pytest.raises(StoreUnavailableError, match=rf"call 1 \({verb}\) fails {failure.value}"):
        await call
    assert len(await inner.read("tasks", ["a"])) == (failure is Failure.AFTER)
    assert store.injected == [(StoreCall(1, verb), Fault(failure))]


@pytest.mark.parametrize("number", [1, 2])
async def test_each_page_of_a_scan_can_fail(number: int) -> None:
    store, inner = struck(scripted_faults({number: Fault(Failure.BEFORE)}))
    await inner.write_each([WRITE])
    with pytest.raises(StoreUnavailableError, match=rf"call {number} \(scan\)"):
        await scan(store)


async def test_a_delay_is_waited_for_before_the_call_or_before_its_answer() -> None:
    clock = VirtualClock(START)
    inner = MemoryStore()
    fault = Fault(delay_for=timedelta(seconds=2), answer_delay_for=timedelta(seconds=3))
    store = FaultyStore(inner, clock, scripted_faults({1: fault}))
    written_at: list[datetime] = []

    def note() -> Any:
        written_at.append(clock.now())
        return iter([WRITE])

    class Noting:
        __iter__ = staticmethod(note)

    await clock.run(store.write_all(Noting()))
    assert written_at == [START + timedelta(seconds=2)]
    assert clock.now() == START + timedelta(seconds=5)


def test_the_same_seed_strikes_the_same_calls() -> None:
    calls = [StoreCall(number, "read") for number in range(500)]
    one, again, other = (
        list(map(seeded_faults(seed, fault_share=0.2, longest_delay=timedelta(1)), calls))
        for seed in (7, 7, 8)
    )
    assert one == again != other
    struck = [fault for fault in one if fault]
    assert 60 < len(struck) < 140
    assert {fault.failure for fault in struck} == {Failure.BEFORE, Failure.AFTER, None}
    assert all(timedelta(0) <= fault.delay_for <= timedelta(1) for fault in struck)


def test_a_share_of_none_or_all_is_kept_exactly() -> None:
    calls = [StoreCall(number, "read") for number in range(100)]
    assert not any(map(seeded_faults(1, fault_share=0), calls))
    always = seeded_faults(1, fault_share=1, failures=[Failure.AFTER])
    assert [always(call) for call in calls] == [Fault(Failure.AFTER)] * 100
