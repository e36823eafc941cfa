"""Records job statistics and queue depths in the store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Protocol

import msgspec

from rota.clock.protocol import Clock, ConditionalClock
from rota.clock.system import timeout_after
from rota.errors import RotaError, StaleVersionError
from rota.events import (
    Event,
    EventEmitter,
    JobDeferred,
    JobFailed,
    JobSettled,
    JobsLeased,
    JobStalled,
)
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, QueueDepth
from rota.telemetry.counters import counted_by, timed_by
from rota.telemetry.error_groups import (
    ERRORS,
    ErrorCount,
    ErrorGroup,
    add_groups,
    decode_groups,
    encode_groups,
)
from rota.telemetry.stats import (
    HOURS,
    MINUTES,
    STATS,
    DepthSample,
    MinuteStats,
    add_minutes,
    decode,
    encode,
    prune_stats,
)
from rota.telemetry.tenant_stats import (
    TENANTS,
    TenantStats,
    add_tenants,
    decode_tenants,
    encode_tenants,
    key_of_hour,
    prune_tenant_stats,
    stats_of,
)
from rota.telemetry.totals import TOTALS, FleetTotals, MinuteCount, TotalsCount, decode_totals

FLUSHED_EVERY = timedelta(seconds=5)
PRUNED_EVERY = timedelta(minutes=10)
WRITTEN_AT_ONCE = 200
MOST_PENDING = 20_000
"""The maximum number of unwritten tenant minutes."""

TRY_COUNT = 5
LAST_WORD = timedelta(seconds=2)

Pending = dict[tuple[str, datetime], MinuteCount]
Place = tuple[str, str]
"""A collection and a key."""

Addend = MinuteStats | FleetTotals | ErrorGroup | TenantStats
Batch = Mapping[Place, list[Addend]]

TOTALS_PLACE: Place = STATS, TOTALS

FORMER = {"tallies": STATS, "tallies.hours": HOURS.collection, "tallies.tenants": TENANTS}
"""The names of these collections in earlier versions."""


class StatsRecorder:
    """Follows workers and stores job statistics of each tenant, its errors, and fleet totals.

    Call ``recorder.follow(worker.events)`` for any number of workers, and run ``await
    recorder.run()`` beside them. Several recorders, in any processes, add up. The numbers are for
    charts: what cannot be written for a long time, or whose write has an unknown outcome, may be
    dropped (``dropped_count``); nothing is counted twice.
    """

    def __init__(self, store: DocumentStore, clock: Clock) -> None:
        self.dropped_count = 0
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._pending: Pending = {}
        self._totals = TotalsCount()
        self._errors = ErrorCount()
        self._waiting: dict[Place, list[Addend]] = {}
        self._pruned_at: datetime | None = None

    def follow(self, events: EventEmitter) -> Callable[[], None]:
        """Count events from now on. The returned function stops counting."""
        return events.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Count one event, as of now."""
        if isinstance(event, (JobSettled, JobDeferred, JobStalled)):
            with self._lock:
                count = self._count_of(event.tenant) or self._totals
                count.add(event, counted_by(event), timed_by(event))
                if isinstance(event, (JobFailed, JobStalled)):
                    self._errors.add(event, self._clock.now())
        elif isinstance(event, JobsLeased):
            with self._lock:
                self._totals.add_picked(event.count)

    def note_depth(self, tenant: str, depth: DepthSample) -> None:
        """Record the depth of the tenant's queues, as of now."""
        with self._lock:
            count = self._count_of(tenant)
            if count is not None:
                count.note_depth(depth)

    async def run(self) -> None:
        """Write every few seconds until cancelled, then once more.

        After a store failure, try again later.
        """
        try:
            while True:
                await self._wait_for_counts()
                await self._clock.sleep(FLUSHED_EVERY)
                with suppress(RotaError):
                    await self._finish_flush()
                    await self._prune()
        finally:
            with suppress(RotaError, TimeoutError):
                async with timeout_after(self._clock, LAST_WORD):
                    await self.flush()

    async def _finish_flush(self) -> None:
        """Flush. When cancelled meanwhile, write what was taken: it would be lost otherwise."""
        flushing = asyncio.create_task(self.flush())
        try:
            await asyncio.shield(flushing)
        except asyncio.CancelledError:
            with suppress(RotaError, TimeoutError):
                async with timeout_after(self._clock, LAST_WORD):
                    await flushing
            raise

    async def _wait_for_counts(self) -> None:
        """Virtual time does not stop every few seconds for nothing, only when pruning is due."""
        if isinstance(self._clock, ConditionalClock):
            with suppress(TimeoutError):
                async with timeout_after(self._clock, PRUNED_EVERY - FLUSHED_EVERY):
                    await self._clock.wait_until(self._has_counts)

    def _has_counts(self) -> bool:
        return bool(self._pending or self._waiting) or not self._totals.is_empty

    async def flush(self) -> None:
        """Write all counts. Store errors are raised."""
        self._take_pending()
        try_count = 0
        while self._waiting and try_count < TRY_COUNT:
            try_count = try_count + 1 if await self._write(self._take_batch()) else 0

    def _count_of(self, tenant: str) -> MinuteCount | None:
        """The count of the current minute; None, and one more drop, when there are too many."""
        at = self._clock.now().replace(second=0, microsecond=0)
        count = self._pending.get((tenant, at))
        if count is None:
            if len(self._pending) >= MOST_PENDING:
                self.dropped_count += 1
                return None
            count = self._pending[tenant, at] = MinuteCount()
        return count

    async def _prune(self) -> None:
        now = self._clock.now()
        if self._pruned_at is None or now - self._pruned_at >= PRUNED_EVERY:
            await self._take_over()
            await prune_stats(self._store, now)
            await prune_tenant_stats(self._store, now)
            self._pruned_at = now

    async def _take_over(self) -> None:
        """Add what earlier versions have stored to what this one stores."""
        for former, collection in FORMER.items():
            async for page in self._store.scan(former):
                for start in range(0, len(page), WRITTEN_AT_ONCE):
                    await self._move(page[start : start + WRITTEN_AT_ONCE], former, collection)

    async def _move(self, documents: Sequence[Document], former: str, collection: str) -> None:
        """Remove and add in one step: a process that dies meanwhile loses nothing.

        A document that another process writes at the same time stays until the next turn.
        """
        kept = await self._read((collection, it.key) for it in documents)
        writes = []
        for document in documents:
            place = collection, document.key
            known, more = kept.get(place), list(_read_addends(place, document))
            version = None if known is None else known.version
            writes.append(DocumentWrite(former, document.key, document.version, None))
            writes.append(DocumentWrite(*place, version, _add(place, known, more)))
        try:
            await self._store.write_all(writes)
        except StaleVersionError:
            for one in documents if len(documents) > 1 else ():
                await self._move([one], former, collection)

    def _take_pending(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
            totals, self._totals = self._totals, TotalsCount()
            errors, self._errors = self._errors, ErrorCount()
        for (tenant, at), count in pending.items():
            self._await_minute(tenant, count.read_minute(at))
            totals.merge(count)
        for tenant, groups in errors.by_tenant().items():
            self._waiting.setdefault((ERRORS, tenant), []).extend(groups)
        if not totals.is_empty:
            unwritten = self._waiting.get(TOTALS_PLACE, ())
            self._waiting[TOTALS_PLACE] = [_add_totals(totals.freeze(), unwritten)]

    def _await_minute(self, tenant: str, minute: MinuteStats) -> None:
        """Add the minute to its tenant's minutes and hours, and to those of all tenants."""
        place = STATS, MINUTES.key_of(tenant, minute.at)
        if place not in self._waiting and len(self._waiting) >= 3 * MOST_PENDING:
            self.dropped_count += 1
            return
        self._waiting.setdefault(place, []).append(minute)
        hour = msgspec.structs.replace(minute, at=HOURS.start_of(minute.at))
        place = HOURS.collection, HOURS.key_of(tenant, minute.at)
        self._waiting.setdefault(place, []).append(hour)
        if minute.wait.count or minute.stalled:
            place = TENANTS, key_of_hour(minute.at)
            self._waiting.setdefault(place, []).append(stats_of(tenant, minute))

    def _take_batch(self) -> Batch:
        """Take a batch, so that two concurrent writers do not write it twice."""
        return {key: self._waiting.pop(key) for key in [*islice(self._waiting, WRITTEN_AT_ONCE)]}

    async def _write(self, batch: Batch) -> bool:
        """Add the batch to the stored statistics. Returns whether another writer was faster."""
        try:
            kept = await self._read(batch)
            writes = [
                DocumentWrite(
                    *place,
                    kept[place].version if place in kept else None,
                    _add(place, kept.get(place), more),
                )
                for place, more in batch.items()
            ]
            written = await self._store.write_each(writes)
        except RotaError as error:
            self._note_failure(batch, error)
            raise
        answers = zip(batch.items(), written, strict=True)
        stale = {place: more for (place, more), version in answers if version is None}
        self._wait_again(stale)
        return bool(stale)

    async def _read(self, places: Iterable[Place]) -> dict[Place, Document]:
        keys: dict[str, list[str]] = {}
        for collection, key in places:
            keys.setdefault(collection, []).append(key)
        return {
            (collection, key): document
            for collection, wanted in keys.items()
            for key, document in (await self._store.read(collection, wanted)).items()
        }

    def _note_failure(self, batch: Batch, error: RotaError) -> None:
        if error.details.get("outcome") == "unknown":
            minutes = [place for place in batch if place[0] == STATS and place != TOTALS_PLACE]
            self.dropped_count += sum(len(batch[place]) for place in minutes)
        else:
            self._wait_again(batch)

    def _wait_again(self, batch: Batch) -> None:
        for place, more in batch.items():
            self._waiting.setdefault(place, []).extend(more)


def _add(place: Place, kept: Document | None, more: Sequence[Addend]) -> bytes:
    if place == TOTALS_PLACE:
        return msgspec.json.encode(_add_totals(decode_totals(kept), more))
    if place[0] == ERRORS:
        groups = [it for it in more if isinstance(it, ErrorGroup)]
        return encode_groups(add_groups(decode_groups(kept), groups))
    if place[0] == TENANTS:
        tenants = [it for it in more if isinstance(it, TenantStats)]
        return encode_tenants(add_tenants(decode_tenants(kept), tenants))
    minutes = [it for it in more if isinstance(it, MinuteStats)]
    return encode(add_minutes(decode(kept), minutes).values())


def _read_addends(place: Place, document: Document) -> Iterable[Addend]:
    """What a document adds to another one of its kind."""
    if place == TOTALS_PLACE:
        return [decode_totals(document)]
    return decode_tenants(document) if place[0] == TENANTS else decode(document).values()


def _add_totals(kept: FleetTotals, more: Iterable[Addend]) -> FleetTotals:
    return sum((it for it in more if isinstance(it, FleetTotals)), kept)


SAMPLED_EVERY = timedelta(minutes=1)
MOST_TENANTS = 100
"""The maximum number of tenants sampled: the most recently active."""

Tenants = Callable[[], Awaitable[Iterable[str]]]
"""Returns further tenants to sample, besides those seen in events."""


class Surveyed(Protocol):
    """The one store verb a sampler needs."""

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]: ...


class DepthSampler:
    """Samples once a minute how many of each tenant's jobs are due and running.

    Call ``sampler.follow(worker.events)`` for any number of workers, and run ``await
    sampler.run()`` beside the recorder. One per server is enough; of several, the highest number
    counts.
    """

    def __init__(
        self, store: Surveyed, clock: Clock, recorder: StatsRecorder, tenants: Tenants
    ) -> None:
        self._store = store
        self._clock = clock
        self._recorder = recorder
        self._find_tenants = tenants
        self._lock = Lock()
        self._active: dict[str, None] = {}

    def follow(self, events: EventEmitter) -> Callable[[], None]:
        """Sample the tenants seen in these events. The returned function stops that."""
        return events.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Remember the tenant of the event."""
        if isinstance(event, (JobSettled, JobDeferred, JobStalled)):
            self._note_active(event.tenant)

    async def run(self) -> None:
        """Sample every minute until cancelled. After a store failure, try again later."""
        while True:
            with suppress(RotaError):
                await self.sample()
            await self._clock.sleep(SAMPLED_EVERY)

    async def sample(self) -> None:
        """Sample every known tenant once. Store errors are raised."""
        others = await self._find_tenants()
        with self._lock:
            known = [*(it for it in others if it not in self._active), *self._active]
        for tenant in known[-MOST_TENANTS:]:
            depths = await self._store.survey(self._clock.now(), tenant)
            due, running = (
                sum(it.due_count for it in depths),
                sum(it.running_count for it in depths),
            )
            self._recorder.note_depth(tenant, DepthSample(due, running))

    def _note_active(self, tenant: str) -> None:
        """Move the tenant to the end of the list. Workers may call this from their own threads."""
        with self._lock:
            self._active.pop(tenant, None)
            self._active[tenant] = None
            if len(self._active) > MOST_TENANTS:
                del self._active[next(iter(self._active))]
