"""The board that a worker goes by, kept up to date."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta

import pytest

from rota.clock.loop import turn
from rota.errors import StoreUnavailableError
from rota.jobs import Job
from rota.policy.gate_settings import (
    EVERYTHING,
    GATE_CHANGES,
    GATES,
    LATEST_CHANGE,
    Entry,
    ScopedMaintenance,
    TenantQuietHours,
    encode_entry,
    key_of,
)
from rota.policy.gates import Closed, Maintenance, Open, Spread, Verdict
from rota.policy.quiet_hours import QuietHours
from rota.policy.watch import GateWatch, note_change
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.testing import VirtualClock, a_job
from rota.testing.faults import Failure, Fault, FaultyStore, scripted_faults

LATE = datetime(2026, 1, 5, 23, tzinfo=UTC)
SEVEN = datetime(2026, 1, 6, 7, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
NIGHT = TenantQuietHours("default", QuietHours(time(22), time(7), UTC))
STOP = ScopedMaintenance(EVERYTHING, (Maintenance(until=LATE + HOUR),))
JOB = a_job()


async def put(store: MemoryStore, key: str, body: bytes | None, *, is_told: bool = True) -> None:
    versions = {
        collection: document.version
        for collection, wanted in ((GATES, key), (GATE_CHANGES, LATEST_CHANGE))
        for document in (await store.read(collection, [wanted])).values()
    }
    writes = [DocumentWrite(GATES, key, versions.get(GATES), body)]
    if is_told:
        writes.append(DocumentWrite(GATE_CHANGES, LATEST_CHANGE, versions.get(GATE_CHANGES), b""))
    await store.write_all(writes)


async def put_entry(store: MemoryStore, entry: Entry, *, is_told: bool = True) -> None:
    await put(store, key_of(entry), encode_entry(entry), is_told=is_told)


def is_open(watch: GateWatch, now: datetime = LATE) -> bool:
    return watch.judge(JOB, now, notifies=True) == Open()


async def test_nothing_passes_before_the_gates_have_been_read() -> None:
    watch = GateWatch(MemoryStore())
    held = watch.judge(JOB, LATE, notifies=False)
    assert held == Closed(LATE + 2 * SECOND, "the gates have not been read yet", is_recheck=True)
    assert await watch.refresh(LATE)
    assert is_open(watch)


async def test_stored_windows_are_what_it_goes_by() -> None:
    store = MemoryStore()
    await put_entry(store, NIGHT)
    await put_entry(store, STOP)
    watch = GateWatch(store)
    await watch.refresh(LATE)
    assert watch.judge(JOB, LATE, notifies=True) == Closed(SEVEN, "maintenance; quiet hours")
    assert watch.judge(JOB, LATE, notifies=False) == Closed(LATE + HOUR, "maintenance")


async def test_a_change_is_noticed_two_seconds_later() -> None:
    store, watch = (memory := MemoryStore()), GateWatch(memory)
    await watch.refresh(LATE)
    await put_entry(store, NIGHT)
    assert not await watch.refresh(LATE + SECOND)
    assert is_open(watch)
    assert await watch.refresh(LATE + 2 * SECOND)
    assert not is_open(watch)
    await put(store, key_of(NIGHT), None)
    assert await watch.refresh(LATE + 4 * SECOND)
    assert is_open(watch)


async def test_a_change_of_this_process_is_noticed_at_once() -> None:
    store, watch = (memory := MemoryStore()), GateWatch(memory)
    await watch.refresh(LATE)
    await put_entry(store, NIGHT)
    assert watch.is_fresh(LATE)
    assert not await watch.refresh(LATE)
    note_change()
    assert not watch.is_fresh(LATE)
    assert await watch.refresh(LATE)
    assert watch.is_fresh(LATE)
    assert not is_open(watch)


async def test_a_lease_that_marks_due_jobs_saves_others_the_work() -> None:
    store, watch = (memory := MemoryStore()), GateWatch(memory)
    await watch.refresh(LATE)
    await put_entry(store, NIGHT)
    await watch.refresh_ahead(LATE + SECOND / 5)
    assert is_open(watch)
    await watch.refresh_ahead(LATE + SECOND / 4)
    assert not is_open(watch)
    await put(store, key_of(NIGHT), None)
    assert not await watch.refresh(LATE + 2 * SECOND)


async def test_without_a_change_the_gates_are_not_read_again_for_a_minute() -> None:
    store, watch = (memory := MemoryStore()), GateWatch(memory)
    await watch.refresh(LATE)
    await put_entry(store, NIGHT, is_told=False)
    assert not await watch.refresh(LATE + 59 * SECOND)
    assert is_open(watch)
    assert await watch.refresh(LATE + 61 * SECOND)
    assert not is_open(watch)


async def test_a_clock_that_is_set_back_does_not_stop_the_looking() -> None:
    store, watch = (memory := MemoryStore()), GateWatch(memory)
    await watch.refresh(LATE)
    await put_entry(store, NIGHT)
    assert await watch.refresh(LATE - HOUR)
    assert not is_open(watch)


async def test_a_damaged_document_is_set_aside_and_reported_and_the_others_stay() -> None:
    store = MemoryStore()
    await put_entry(store, NIGHT)
    await put(store, "maintenance", b"{")
    watch = GateWatch(store)
    await watch.refresh(LATE)
    assert [damage.key for damage in watch.damages] == ["maintenance"]
    assert watch.judge(JOB, LATE, notifies=True) == Closed(SEVEN, "quiet hours")


async def test_a_document_that_becomes_unreadable_holds_as_it_was_read() -> None:
    store, watch = (memory := MemoryStore()), GateWatch(memory)
    await put_entry(store, NIGHT)
    await watch.refresh(LATE)
    await put(store, key_of(NIGHT), b"{")
    for minutes in (1, 2):
        await watch.refresh(LATE + minutes * MINUTE)
        assert [damage.key for damage in watch.damages] == [key_of(NIGHT)]
        assert not is_open(watch)
    await put_entry(store, TenantQuietHours("default", QuietHours(time(1), time(2), UTC)))
    await watch.refresh(LATE + 3 * MINUTE)
    assert watch.damages == ()
    assert is_open(watch)


async def test_while_the_store_fails_what_was_read_holds() -> None:
    memory, clock = MemoryStore(), VirtualClock(LATE)
    await put_entry(memory, NIGHT)
    faults = scripted_faults({number: Fault(Failure.BEFORE) for number in range(4, 9)})
    watch = GateWatch(FaultyStore(memory, clock, faults))
    assert await watch.refresh(LATE)
    with pytest.raises(StoreUnavailableError):
        await watch.refresh(LATE + MINUTE)
    assert not is_open(watch)


async def test_gates_of_ones_own_are_asked_too() -> None:
    watch = GateWatch(MemoryStore(), more=[Maintenance(until=SEVEN, reason="own")])
    await watch.refresh(LATE)
    assert watch.judge(JOB, LATE, notifies=False) == Closed(SEVEN, "maintenance: own")


async def reopenings(watch: GateWatch, count: int) -> list[datetime]:
    await watch.refresh(LATE)
    verdicts = [watch.judge(a_job(), LATE, notifies=True) for _ in range(count)]
    return [each.reopens_at for each in verdicts if isinstance(each, Closed)]


async def test_a_burst_is_spread_and_its_first_jobs_are_not() -> None:
    store = MemoryStore()
    await put_entry(store, NIGHT)
    found = await reopenings(GateWatch(store, spread=Spread()), 200)
    assert found[:10] == [SEVEN] * 10
    assert len(found) == len(set(found)) + 9
    assert min(found[10:]) > SEVEN
    assert max(found) < SEVEN + 5 * MINUTE


async def test_without_spread_all_jobs_start_when_the_gate_opens() -> None:
    store = MemoryStore()
    await put_entry(store, NIGHT)
    for watch in (GateWatch(store), GateWatch(store, spread=Spread(over_for=timedelta(0)))):
        assert await reopenings(watch, 50) == [SEVEN] * 50


async def test_each_night_counts_its_own_jobs() -> None:
    store = MemoryStore()
    await put_entry(store, NIGHT)
    watch = GateWatch(store, spread=Spread(exact_count=1))
    await reopenings(watch, 5)
    next_night = LATE + timedelta(days=1)
    await watch.refresh(next_night)
    assert len(watch._waiting) == 0
    held = watch.judge(JOB, next_night, notifies=True)
    assert held == Closed(SEVEN + timedelta(days=1), "quiet hours")


async def test_a_job_that_is_checked_again_is_not_spread() -> None:
    store = MemoryStore()
    await put_entry(store, ScopedMaintenance(EVERYTHING, (Maintenance(),)))
    found = await reopenings(GateWatch(store), 50)
    assert found == [LATE + 5 * MINUTE] * 50


class AskAgain:
    """Opens after six minutes, and only knows that five are too early to tell."""

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
        if now >= LATE + 6 * MINUTE:
            return Open()
        return Closed(LATE + 5 * MINUTE, "who knows", is_recheck=True)


async def test_an_undecided_gate_is_asked_again_at_the_instant_it_names() -> None:
    found = await reopenings(GateWatch(MemoryStore(), more=[AskAgain()]), 50)
    assert found == [LATE + 5 * MINUTE] * 50


async def test_handlers_that_start_together_share_one_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, clock, reads = MemoryStore(), VirtualClock(start=LATE), 0
    read = store.read

    async def count(collection: str, keys: Sequence[str]) -> dict[str, Document]:
        nonlocal reads
        reads += 1
        await turn()
        return await read(collection, keys)

    monkeypatch.setattr(store, "read", count)
    watch = GateWatch(store)
    await asyncio.gather(*(watch.make_fresh(clock) for _ in range(100)))
    assert reads == 1
    assert watch.is_fresh(clock.now())
