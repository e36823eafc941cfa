"""Records job statistics and queue depths in the store."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Protocol

from rota.clock.protocol import Clock
from rota.clock.timeout import timeout_after
from rota.errors import RotaError
from rota.events import Event, JobDeferred, JobSettled, JobStalled
from rota.stores.jobs import QueueDepth
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.telemetry.counters import Journal
from rota.telemetry.stats import (
    TALLIES,
    DepthSample,
    MinuteCount,
    MinuteTally,
    add_minutes,
    decode,
    encode,
    key_of,
    prune_tallies,
)

FLUSHED_EVERY = timedelta(seconds=5)
PRUNED_EVERY = timedelta(minutes=10)
WRITTEN_AT_ONCE = 200
MOST_PENDING = 20_000
"""Of so many minutes of tenants at most is something counted that is not written yet."""

TRY_COUNT = 5
LAST_WORD = timedelta(seconds=2)

Pending = dict[tuple[str, datetime], MinuteCount]
Batch = Mapping[str, list[MinuteTally]]


class Tally:
    """Follows workers, and keeps what it counts in the store.

    ``tally.follow(worker.events)`` for any number of workers, and ``await tally.run()`` beside
    them. Several tallies, in any processes, add up. Numbers are for people who look at charts: what
    cannot be written for a long time, or of which nobody knows whether it was, may be left out
    (``dropped_count``), and nothing is counted twice.
    """

    def __init__(self, store: DocumentStore, clock: Clock) -> None:
        self.dropped_count = 0
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._pending: Pending = {}
        self._waiting: dict[str, list[MinuteTally]] = {}
        self._pruned_at: datetime | None = None

    def follow(self, journal: Journal) -> Callable[[], None]:
        """Count what is told there from now on; the returned function ends that."""
        return journal.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Count one event, as of now."""
        if not isinstance(event, (JobSettled, JobDeferred, JobStalled)):
            return
        with self._lock:
            count = self._count_of(event.tenant)
            if count is not None:
                count.add(event)

    def note_depth(self, tenant: str, depth: DepthSample) -> None:
        """Keep how full the tenant's queues are, as of now."""
        with self._lock:
            count = self._count_of(tenant)
            if count is not None:
                count.note_depth(depth)

    async def run(self) -> None:
        """Write every few seconds, until cancelled; then once more.

        A store that is at fault is asked again later.
        """
        try:
            while True:
                await self._clock.sleep(FLUSHED_EVERY)
                with suppress(RotaError):
                    await self.flush()
                    await self._prune()
        finally:
            with suppress(RotaError, TimeoutError):
                async with timeout_after(self._clock, LAST_WORD):
                    await self.flush()

    async def flush(self) -> None:
        """Write everything that was counted; what the store raises is passed on."""
        self._take_pending()
        try_count = 0
        while self._waiting and try_count < TRY_COUNT:
            try_count = try_count + 1 if await self._write(self._take_batch()) else 0

    def _count_of(self, tenant: str) -> MinuteCount | None:
        """That of this minute; None, and a drop, when there are too many already."""
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
            await prune_tallies(self._store, now)
            self._pruned_at = now

    def _take_pending(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, {}
        for (tenant, at), count in pending.items():
            key = key_of(tenant, at)
            if key not in self._waiting and len(self._waiting) >= MOST_PENDING:
                self.dropped_count += 1
            else:
                self._waiting.setdefault(key, []).append(count.freeze(at))

    def _take_batch(self) -> Batch:
        """What is taken is nobody else's, should two write at once."""
        return {key: self._waiting.pop(key) for key in [*islice(self._waiting, WRITTEN_AT_ONCE)]}

    async def _write(self, batch: Batch) -> bool:
        """Add these to what is kept; whether somebody else has written one meanwhile."""
        try:
            kept = await self._store.read(TALLIES, list(batch))
            writes = [_add_to(key, kept.get(key), more) for key, more in batch.items()]
            written = await self._store.write_each(writes)
        except RotaError as error:
            self._note_failure(batch, error)
            raise
        answers = zip(batch.items(), written, strict=True)
        stale = {key: more for (key, more), version in answers if version is None}
        self._wait_again(stale)
        return bool(stale)

    def _note_failure(self, batch: Batch, error: RotaError) -> None:
        if error.details.get("outcome") == "unknown":
            self.dropped_count += sum(map(len, batch.values()))
        else:
            self._wait_again(batch)

    def _wait_again(self, batch: Batch) -> None:
        for key, more in batch.items():
            self._waiting.setdefault(key, []).extend(more)


def _add_to(key: str, kept: Document | None, more: Sequence[MinuteTally]) -> DocumentWrite:
    total = add_minutes(decode(kept), more)
    return DocumentWrite(
        TALLIES, key, None if kept is None else kept.version, encode(total.values())
    )


SAMPLED_EVERY = timedelta(minutes=1)
MOST_TENANTS = 100
"""Of so many tenants at most is the depth looked at: those that were active last."""

Tenants = Callable[[], Awaitable[Iterable[str]]]
"""Who else is to be looked at, beside those of whom workers tell."""


class Surveyed(Protocol):
    """The one verb of a store that is needed."""

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]: ...


class DepthSampler:
    """Notes in a tally, minute by minute, how many jobs of a tenant were due and how many ran.

    ``sampler.follow(worker.events)`` for any number of workers, and ``await sampler.run()`` beside
    the tally. One for each server is enough; of several the highest number counts.
    """

    def __init__(self, store: Surveyed, clock: Clock, tally: Tally, tenants: Tenants) -> None:
        self._store = store
        self._clock = clock
        self._tally = tally
        self._find_tenants = tenants
        self._lock = Lock()
        self._active: dict[str, None] = {}

    def follow(self, journal: Journal) -> Callable[[], None]:
        """Look from now on at the tenants that are told of there; the function ends that."""
        return journal.subscribe(self.observe)

    def observe(self, event: Event) -> None:
        """Remember whose job it was."""
        if isinstance(event, (JobSettled, JobDeferred, JobStalled)):
            self._note_active(event.tenant)

    async def run(self) -> None:
        """Look in every minute, until cancelled; a store that is at fault is asked again later."""
        while True:
            with suppress(RotaError):
                await self.sample()
            await self._clock.sleep(SAMPLED_EVERY)

    async def sample(self) -> None:
        """Look once, at every tenant that is known; what the store raises is passed on."""
        others = await self._find_tenants()
        with self._lock:
            known = [*(it for it in others if it not in self._active), *self._active]
        for tenant in known[-MOST_TENANTS:]:
            depths = await self._store.survey(self._clock.now(), tenant)
            due, running = (
                sum(it.due_count for it in depths),
                sum(it.running_count for it in depths),
            )
            self._tally.note_depth(tenant, DepthSample(due, running))

    def _note_active(self, tenant: str) -> None:
        """The last one is the most recent. Workers may tell of it in threads of their own."""
        with self._lock:
            self._active.pop(tenant, None)
            self._active[tenant] = None
            if len(self._active) > MOST_TENANTS:
                del self._active[next(iter(self._active))]
