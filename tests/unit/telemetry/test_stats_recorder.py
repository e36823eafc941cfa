"""What is counted per tenant and minute, and kept."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.events import (
    Event,
    EventEmitter,
    JobDeferred,
    JobFailed,
    JobSettled,
    JobStalled,
    JobStarted,
)
from rota.stores.documents import remove_documents
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite, KeptDocument
from rota.telemetry import stats, stats_recorder
from rota.telemetry.stats import (
    HOURS,
    HOURS_KEPT,
    MINUTES,
    RETENTION,
    STATS,
    MinuteStats,
    PartStats,
    add_parts,
    prune_stats,
    read_stats,
)
from rota.telemetry.stats_recorder import FLUSHED_EVERY, FORMER, PRUNED_EVERY, StatsRecorder
from rota.telemetry.tenant_stats import TENANTS_KEPT, prune_tenant_stats, read_tenant_stats
from rota.telemetry.totals import TOTALS, FleetTotals, read_totals
from rota.testing import VirtualClock, a_job
from rota.worker import Context, Worker

NOW = datetime(2026, 5, 1, 12, 58, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
THIS_MINUTE = NOW.replace(second=0)


def named(tenant: str) -> dict[str, Any]:
    return {"tenant": tenant, "job_id": "a", "kind": "work", "queue": "mail", "attempt": 1}


def settled(tenant: str = "guild-7", duration_ms: float = 5.0) -> JobSettled:
    return JobSettled(
        outcome="succeeded", state="done", wait_ms=20.0, duration_ms=duration_ms, **named(tenant)
    )


def failed(state: str = "queued", err_code: str = "ValueError") -> JobFailed:
    return JobFailed(
        outcome="failed", state=state, wait_ms=40.0, duration_ms=7.0, err_code=err_code,
        error="no", due_at=NOW, **named("guild-7"),
    )  # fmt: skip


class RacedStore(MemoryStore):
    """A store on which somebody else may write first, or that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.others: list[StatsRecorder] = []
        self.error: StoreUnavailableError | None = None
        self.is_written = True

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        found = await super().read(collection, keys)
        while self.others:
            await self.others.pop().flush()
        return found

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        if self.error is None:
            return await super().write_each(writes)
        if self.is_written:
            await super().write_each(writes)
        raise self.error


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
def store() -> RacedStore:
    return RacedStore()


@pytest.fixture
def recorder(store: RacedStore, clock: VirtualClock) -> StatsRecorder:
    return StatsRecorder(store, clock)


async def read_all(store: MemoryStore, tenant: str = "guild-7") -> list[MinuteStats]:
    return await read_stats(store, tenant, NOW - timedelta(hours=6), NOW + timedelta(hours=6))


async def test_every_event_is_counted_where_it_belongs(
    recorder: StatsRecorder, store: RacedStore
) -> None:
    events: list[Event] = [
        JobStarted(wait_ms=1.0, **named("guild-7")),
        settled(),
        settled("guild-8"),
        failed(),
        failed("dlq", "NoHandler"),
        JobDeferred(until=NOW, reason="quiet", **named("guild-7")),
        JobStalled(worker="w", lease_until=NOW, state="queued", loss_count=1, **named("guild-7")),
    ]
    for event in events:
        recorder.observe(event)
    await recorder.flush()
    (found,) = await read_all(store)
    assert found.at == THIS_MINUTE
    counts = (found.succeeded, found.failed, found.dead, found.deferred, found.stalled)
    assert counts == (1, 2, 1, 1, 1)
    assert (found.handler.count, found.handler.sum_ms) == (2, 12.0)
    assert (found.wait.count, found.wait.sum_ms, found.wait.longest_ms) == (3, 100.0, 40.0)
    (other,) = await read_all(store, "guild-8")
    assert (other.succeeded, other.failed) == (1, 0)
    assert await read_all(store, "guild-9") == []


async def test_minutes_are_apart_and_in_order_also_over_an_hour(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    for _ in range(4):
        recorder.observe(settled())
        await clock.advance(MINUTE)
    await recorder.flush()
    found = await read_all(store)
    assert [it.at for it in found] == [THIS_MINUTE + index * MINUTE for index in range(4)]
    total = found[0] + found[1] + found[2] + found[3]
    assert (total.at, total.succeeded) == (THIS_MINUTE, 4)
    within = await read_stats(store, "guild-7", found[1].at, found[3].at)
    assert within == found[1:3]


async def test_the_counts_of_several_recorders_add_up(
    store: RacedStore, clock: VirtualClock
) -> None:
    mine, another = StatsRecorder(store, clock), StatsRecorder(store, clock)
    for recorder in (mine, another, mine):
        recorder.observe(settled())
    store.others = [another]
    await mine.flush()
    await mine.flush()
    (found,) = await read_all(store)
    assert (found.succeeded, found.handler.count) == (3, 3)


async def test_what_an_earlier_version_stored_is_taken_over_and_added(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    for event in (settled(), settled("guild-8"), failed()):
        recorder.observe(event)
    await recorder.flush()
    for former, collection in FORMER.items():
        async for page in store.scan(collection):
            await store.load([KeptDocument(former, *document) for document in page], NOW)
    for removed in FORMER.values():
        await remove_documents(store, removed, lambda _: True)
    assert (await read_all(store), await read_totals(store)) == ([], FleetTotals())
    recorder.observe(settled())
    running = asyncio.create_task(recorder.run())
    await clock.advance(FLUSHED_EVERY)
    running.cancel()
    await clock.run(asyncio.wait({running}))
    (found,) = await read_all(store)
    assert (found.succeeded, found.failed, found.handler.count) == (2, 1, 3)
    kinds = (await read_totals(store)).kinds
    assert (sum(it.succeeded for it in kinds), sum(it.failed for it in kinds)) == (3, 1)
    busy = await read_tenant_stats(store, NOW, NOW + timedelta(hours=1))
    assert [(each.tenant, each.ended_count) for each in busy] == [("guild-7", 3), ("guild-8", 1)]
    for former in FORMER:
        assert [page async for page in store.scan(former)] == []


async def test_a_process_that_dies_while_it_takes_over_loses_nothing(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    for event in (settled(), settled("guild-8"), failed()):
        recorder.observe(event)
    await recorder.flush()
    for former, collection in FORMER.items():
        async for page in store.scan(collection):
            await store.load([KeptDocument(former, *document) for document in page], NOW)
    for removed in FORMER.values():
        await remove_documents(store, removed, lambda _: True)
    recorder.observe(settled())
    running = asyncio.create_task(recorder.run())
    await clock.advance(FLUSHED_EVERY)
    (found,) = await read_all(store)  # it has no time to write anything more
    kinds = (await read_totals(store)).kinds
    running.cancel()
    await clock.run(asyncio.wait({running}))
    assert (found.succeeded, found.failed) == (2, 1)
    assert (sum(it.succeeded for it in kinds), sum(it.failed for it in kinds)) == (3, 1)


async def test_what_others_write_during_a_takeover_is_neither_lost_nor_counted_twice(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    for event in (settled(), failed()):
        recorder.observe(event)
    await recorder.flush()
    async for page in store.scan(HOURS.collection):
        await store.load([KeptDocument("tallies.hours", *document) for document in page], NOW)
    await remove_documents(store, HOURS.collection, lambda _: True)
    other = StatsRecorder(store, clock)
    other.observe(settled())
    store.others = [other]
    await recorder._take_over()  # the document stays, as the other one was faster
    await recorder._take_over()
    at = HOURS.start_of(NOW)
    (found,) = await read_stats(store, "guild-7", at, at + timedelta(hours=1), HOURS)
    assert (found.succeeded, found.failed) == (2, 1)


async def test_two_flushes_at_once_count_nothing_twice(
    recorder: StatsRecorder, store: RacedStore
) -> None:
    recorder.observe(settled())
    await asyncio.gather(recorder.flush(), recorder.flush())
    assert [it.succeeded for it in await read_all(store)] == [1]


async def test_counts_that_the_store_refused_are_written_later(
    recorder: StatsRecorder, store: RacedStore
) -> None:
    recorder.observe(settled())
    store.error, store.is_written = StoreUnavailableError("away"), False
    with pytest.raises(StoreUnavailableError):
        await recorder.flush()
    store.error = None
    recorder.observe(settled())
    await recorder.flush()
    assert [it.succeeded for it in await read_all(store)] == [2]
    assert recorder.dropped_count == 0


async def test_counts_that_may_have_been_written_are_not_written_again(
    recorder: StatsRecorder, store: RacedStore
) -> None:
    recorder.observe(settled())
    store.error = StoreUnavailableError("lost", {"outcome": "unknown"})
    with pytest.raises(StoreUnavailableError):
        await recorder.flush()
    store.error = None
    await recorder.flush()
    assert [it.succeeded for it in await read_all(store)] == [1]
    assert recorder.dropped_count == 1


async def test_running_stats_are_written_every_few_seconds_and_at_the_end(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    journal = EventEmitter("rota.tests")
    end = recorder.follow(journal)
    run = asyncio.create_task(recorder.run())
    journal.emit(settled())
    await clock.advance(FLUSHED_EVERY)
    assert [it.succeeded for it in await read_all(store)] == [1]
    store.error, store.is_written = StoreUnavailableError("away"), False
    journal.emit(settled())
    await clock.advance(FLUSHED_EVERY)
    store.error = None
    run.cancel()
    await clock.run(asyncio.wait({run}))
    assert [it.succeeded for it in await read_all(store)] == [2]
    end()
    journal.emit(settled())
    await recorder.flush()
    assert [it.succeeded for it in await read_all(store)] == [2]


@pytest.mark.parametrize("verb", ["read", "write_each"])
async def test_counts_that_are_being_written_when_it_ends_are_not_lost(
    store: RacedStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    carry_out = getattr(store, verb)

    async def be_slow(*asked: Any) -> Any:
        await clock.sleep(timedelta(milliseconds=300))
        return await carry_out(*asked)

    monkeypatch.setattr(store, verb, be_slow)
    recorder = StatsRecorder(store, clock)
    run = asyncio.create_task(recorder.run())
    recorder.observe(settled())
    await clock.advance(FLUSHED_EVERY + timedelta(milliseconds=100))
    run.cancel()
    await clock.run(asyncio.wait({run}))
    monkeypatch.undo()
    assert [it.succeeded for it in await read_all(store)] == [1]


async def test_it_follows_a_worker(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    async def fail_for_one(context: Context) -> None:
        if context.payload["fails"]:
            raise ValueError

    worker = Worker(store, {"work": fail_for_one}, clock=clock)
    recorder.follow(worker.events)
    jobs = [
        a_job(kind="work", tenant="guild-7", payload={"fails": it}, due_at=NOW)
        for it in (True, False, False)
    ]
    await store.insert(jobs, NOW)
    await worker.run_once()
    await recorder.flush()
    (found,) = await read_all(store)
    assert (found.succeeded, found.failed, found.wait.count) == (2, 1, 3)


async def test_more_tenants_than_may_wait_are_left_out_and_said(
    recorder: StatsRecorder, store: RacedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats_recorder, "MOST_PENDING", 3)
    monkeypatch.setattr(stats_recorder, "WRITTEN_AT_ONCE", 2)
    for index in range(5):
        recorder.observe(settled(f"guild-{index}"))
    await recorder.flush()
    kept = [len(await read_all(store, f"guild-{index}")) for index in range(5)]
    assert kept == [1, 1, 1, 0, 0]
    assert recorder.dropped_count == 2


async def test_counts_are_kept_for_two_days(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    run = asyncio.create_task(recorder.run())
    for tenant in range(250):
        recorder.observe(settled(f"guild-{tenant}"))
    await clock.advance(RETENTION)
    first = MINUTES.key_of("guild-7", NOW)
    recorder.observe(settled())
    await clock.advance(FLUSHED_EVERY)
    assert first in await store.read(STATS, [first])
    await clock.advance(timedelta(hours=1) + PRUNED_EVERY + FLUSHED_EVERY)
    keys = [document.key async for page in store.scan(STATS) for document in page]
    assert keys == [MINUTES.key_of("guild-7", NOW + RETENTION), TOTALS]
    assert await prune_stats(store, clock.now()) == 0
    run.cancel()
    await clock.run(asyncio.wait({run}))


async def test_a_long_range_is_cut_to_what_is_kept() -> None:
    asked: list[Sequence[str]] = []

    class Asked(MemoryStore):
        async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
            asked.append(keys)
            return await super().read(collection, keys)

    await read_stats(Asked(), "guild-7", datetime(1, 1, 1, tzinfo=UTC), NOW)
    assert len(asked[0]) == RETENTION / timedelta(hours=1) + 1


async def test_a_naive_time_is_refused(store: RacedStore) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await read_stats(store, "guild-7", NOW.replace(tzinfo=None), NOW)
    assert caught.value.details["field"] == "since"


async def test_unreadable_counts_are_ignored(recorder: StatsRecorder, store: RacedStore) -> None:
    key = MINUTES.key_of("guild-7", NOW)
    await store.write_each([DocumentWrite(STATS, key, None, b"not a recorder")])
    assert await read_all(store) == []
    recorder.observe(settled())
    await recorder.flush()
    assert [it.succeeded for it in await read_all(store)] == [1]


async def test_hours_add_up_the_minutes_by_kind_and_queue_and_are_kept_for_a_month(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    for _ in range(3):
        recorder.observe(settled())
        await clock.advance(MINUTE)
        await recorder.flush()
    recorder.observe(failed("dlq"))
    await recorder.flush()
    since = NOW - timedelta(hours=6)
    found = await read_stats(store, "guild-7", since, NOW + timedelta(hours=6), HOURS)
    assert [(it.at.hour, it.succeeded, it.failed) for it in found] == [(12, 2, 0), (13, 1, 1)]
    assert found[1].parts == (PartStats("work", "mail", 1, 1, 1, found[1].handler),)
    assert found[1].handler.count == 2
    later = NOW + HOURS_KEPT + timedelta(days=2)
    await prune_stats(store, later)
    assert await read_stats(store, "guild-7", since, NOW + timedelta(hours=6), HOURS) == []


async def test_tenants_are_compared_by_the_hour_the_busiest_first(
    recorder: StatsRecorder, store: RacedStore, clock: VirtualClock
) -> None:
    for tenant in ("quiet", "loud", "loud"):
        recorder.observe(settled(tenant))
    await clock.advance(timedelta(hours=1))
    recorder.observe(settled("loud"))
    await recorder.flush()
    now = clock.now()
    loud, quiet = await read_tenant_stats(store, now - timedelta(hours=1), now)
    assert (loud.tenant, loud.ended_count, loud.handler_ms, loud.mean_wait_ms) == (
        "loud",
        3,
        15,
        20,
    )
    assert (quiet.tenant, quiet.ended_count) == ("quiet", 1)
    later = now + timedelta(hours=2)
    assert await read_tenant_stats(store, later - timedelta(hours=1), later) == []
    await prune_tenant_stats(store, now + TENANTS_KEPT + timedelta(hours=2))
    assert await read_tenant_stats(store, now - timedelta(hours=1), now) == []


def test_more_kinds_than_are_counted_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "MOST_PARTS", 2)
    parts = add_parts((), [PartStats(kind, "q", 1) for kind in "abcd"])
    assert parts == (PartStats("a", "q", 1), PartStats("b", "q", 1), PartStats("other", "other", 2))
    assert add_parts(parts, [PartStats("a", "q", 0, 1)])[0] == PartStats("a", "q", 1, 1)
