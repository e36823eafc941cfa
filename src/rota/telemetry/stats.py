"""Statistics per tenant, by minute for two days and by hour for a month, kept in the store."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from rota.clock.protocol import to_utc
from rota.stores.documents import decode_body
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.telemetry.counters import OTHER, Counter, Durations

BOUNDS_MS: tuple[float, ...] = (
    1, 2.5, 5, 10, 25, 50, 100, 250, 500,
    1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000,
)  # fmt: skip
"""The upper bounds of the duration buckets in milliseconds; the last bucket has none.

They are part of the stored format: other bounds would need another record.
"""

NO_BUCKETS = (0,) * (len(BOUNDS_MS) + 1)


class DurationStats(msgspec.Struct, frozen=True, array_like=True):
    """Durations: count, sum, maximum and a histogram."""

    count: int = 0
    sum_ms: float = 0.0
    longest_ms: float = 0.0
    buckets: tuple[int, ...] = NO_BUCKETS

    def __add__(self, other: "DurationStats") -> "DurationStats":
        return DurationStats(
            self.count + other.count,
            self.sum_ms + other.sum_ms,
            max(self.longest_ms, other.longest_ms),
            tuple(map(int.__add__, self.buckets, other.buckets)),
        )

    @property
    def mean_ms(self) -> float | None:
        return self.sum_ms / self.count if self.count else None

    @property
    def p50_ms(self) -> float | None:
        return self.quantile(0.5)

    @property
    def p95_ms(self) -> float | None:
        return self.quantile(0.95)

    @property
    def p99_ms(self) -> float | None:
        return self.quantile(0.99)

    def quantile(self, share: float) -> float | None:
        """The quantile, interpolated within its bucket; None without durations.

        It never exceeds the maximum.
        """
        if not self.count:
            return None
        wanted = share * self.count
        totals = list(accumulate(self.buckets))
        index = min(bisect_left(totals, wanted), len(self.buckets) - 1)
        low = BOUNDS_MS[index - 1] if index else 0.0
        high = BOUNDS_MS[index] if index < len(BOUNDS_MS) else self.longest_ms
        inside = self.buckets[index]
        before = totals[index] - inside
        reached = low + (high - low) * ((wanted - before) / inside if inside else 0.0)
        return min(max(reached, 0.0), self.longest_ms)


class DurationCount:
    """A mutable DurationStats for counting."""

    __slots__ = ("buckets", "count", "longest_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.longest_ms = 0.0
        self.buckets = list(NO_BUCKETS)

    def add(self, milliseconds: float) -> None:
        self.count += 1
        self.sum_ms += milliseconds
        self.longest_ms = max(self.longest_ms, milliseconds)
        self.buckets[bisect_left(BOUNDS_MS, milliseconds)] += 1

    def merge(self, other: "DurationCount") -> None:
        self.count += other.count
        self.sum_ms += other.sum_ms
        self.longest_ms = max(self.longest_ms, other.longest_ms)
        self.buckets = [*map(int.__add__, self.buckets, other.buckets)]

    def freeze(self) -> DurationStats:
        return DurationStats(self.count, self.sum_ms, self.longest_ms, tuple(self.buckets))


NO_DURATIONS = DurationStats()

FIELDS: Mapping[Counter, str] = {
    "jobs.succeeded": "succeeded",
    "jobs.failed": "failed",
    "jobs.dlq": "dead",
    "jobs.deferred": "deferred",
    "jobs.stalled": "stalled",
}


class DepthSample(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The due and running jobs of a tenant at a sample."""

    due: int = 0
    running: int = 0


class OutcomeStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Ended attempts by outcome, and their durations.

    Each attempt is one of ``succeeded``, ``failed``, ``deferred`` and ``stalled``; a job's last
    failed attempt is also ``dead``. ``handler`` is the handlers' duration, ``wait`` the time from
    due to leased.
    """

    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    deferred: int = 0
    stalled: int = 0
    handler: DurationStats = NO_DURATIONS
    wait: DurationStats = NO_DURATIONS

    def summed(self, other: "OutcomeStats") -> dict[str, Any]:
        """The sums of these fields."""
        return {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}


_SUMMED = OutcomeStats.__struct_fields__


MOST_PARTS = 50
"""How many kinds and queues a minute or hour counts by themselves; the rest is ``other``."""

REST = (OTHER, OTHER)


class PartStats(msgspec.Struct, frozen=True, array_like=True):
    """The ended attempts of one kind in one queue.

    Of those that failed or stalled, ``dead`` were the last of their job. ``handler`` is the
    handlers' duration.
    """

    kind: str
    queue: str
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    handler: DurationStats = NO_DURATIONS


Parts = tuple[PartStats, ...]


def add_parts(one: Parts, other: Iterable[PartStats]) -> Parts:
    """Add kind by kind and queue by queue; beyond ``MOST_PARTS`` of them as ``other``."""
    total = {(it.kind, it.queue): it for it in one}
    for part in other:
        label = part.kind, part.queue
        if label not in total and len(total) >= MOST_PARTS:
            label = REST
        known = total.get(label) or PartStats(*label)
        total[label] = PartStats(
            *label,
            known.succeeded + part.succeeded,
            known.failed + part.failed,
            known.dead + part.dead,
            known.handler + part.handler,
        )
    return tuple(total.values())


class MinuteStats(OutcomeStats, frozen=True, kw_only=True, omit_defaults=True):
    """The ended attempts of a tenant's jobs in the minute, or hour, that starts ``at``.

    ``depth`` is the highest sampled depth; ``parts`` are the counts by kind and queue.
    """

    at: datetime
    depth: DepthSample | None = None
    parts: Parts = ()

    def __add__(self, other: "MinuteStats") -> "MinuteStats":
        """Add two minutes.

        ``at`` is the earlier one's, so that minutes add up to longer periods.
        """
        return MinuteStats(
            at=min(self.at, other.at),
            depth=max_depth(self.depth, other.depth),
            parts=add_parts(self.parts, other.parts),
            **self.summed(other),
        )


class OutcomeCount:
    """A mutable OutcomeStats for counting."""

    __slots__ = ("counts", "handler", "wait")

    def __init__(self) -> None:
        self.counts = dict.fromkeys(FIELDS.values(), 0)
        self.handler = DurationCount()
        self.wait = DurationCount()

    def add(self, counted: Iterable[Counter], timed: Durations | None) -> None:
        for name in counted:
            self.counts[FIELDS[name]] += 1
        if timed is None:
            return
        self.wait.add(timed.wait_ms)
        if timed.handler_ms is not None:
            self.handler.add(timed.handler_ms)

    def merge(self, other: "OutcomeCount") -> None:
        for name, count in other.counts.items():
            self.counts[name] += count
        self.handler.merge(other.handler)
        self.wait.merge(other.wait)

    def read(self) -> dict[str, Any]:
        """The fields of an OutcomeStats."""
        return self.counts | {"handler": self.handler.freeze(), "wait": self.wait.freeze()}


def max_depth(one: DepthSample | None, other: DepthSample | None) -> DepthSample | None:
    """The deeper sample, so that several samplers in one minute do not count twice."""
    return max((it for it in (one, other) if it is not None), default=None)


STATS = "stats"
"""The collection of the minutes. A key is the hour, a slash and the tenant; or ``totals``."""

RETENTION = timedelta(hours=48)
"""How long minutes are kept."""

HOURS_KEPT = timedelta(days=31)

_HOUR = timedelta(hours=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Resolution(NamedTuple):
    """Statistics of periods of one length. A document covers several; its key names their start."""

    collection: str
    period: timedelta
    covered: timedelta
    format: str
    kept_for: timedelta

    def key_of(self, tenant: str, at: datetime) -> str:
        return f"{at.astimezone(UTC).strftime(self.format)}/{tenant}"

    def start_of(self, at: datetime) -> datetime:
        """When the period that contains the instant starts."""
        return at - (at - _EPOCH) % self.period


MINUTES = Resolution(STATS, timedelta(minutes=1), _HOUR, "%Y-%m-%dT%H", RETENTION)
HOURS = Resolution("stats.hours", _HOUR, timedelta(days=1), "%Y-%m-%d", HOURS_KEPT)

Minutes = Mapping[datetime, MinuteStats]


class _Body(msgspec.Struct, frozen=True):
    minutes: list[MinuteStats]


def encode(minutes: Iterable[MinuteStats]) -> bytes:
    return msgspec.json.encode(_Body(sorted(minutes, key=lambda it: it.at)))


def decode(document: Document | None) -> Minutes:
    """The minutes in the document; none when it is missing or unreadable."""
    return {it.at: it for it in decode_body(document, _Body, _Body([])).minutes}


def add_minutes(kept: Minutes, more: Sequence[MinuteStats]) -> Minutes:
    """Add two sets of minutes, minute by minute."""
    total = dict(kept)
    for minute in more:
        found = total.get(minute.at)
        total[minute.at] = minute if found is None else found + minute
    return total


async def read_stats(
    store: DocumentStore,
    tenant: str,
    since: datetime,
    until: datetime,
    resolution: Resolution = MINUTES,
) -> list[MinuteStats]:
    """The tenant's minutes from ``since`` until before ``until``, in order.

    Minutes without activity or samples are left out. At most the last two days before ``until`` are
    read; with ``HOURS``, the hours of the last 31 days. Workers write their counts every few
    seconds.
    """
    until = to_utc(until, "until")
    since = max(to_utc(since, "since"), until - resolution.kept_for)
    keys = [resolution.key_of(tenant, at) for at in _starts(since, until, resolution.covered)]
    documents = await store.read(resolution.collection, keys)
    minutes = [
        minute
        for key in keys
        for minute in decode(documents.get(key)).values()
        if since <= minute.at < until
    ]
    return sorted(minutes, key=lambda it: it.at)


def _starts(since: datetime, until: datetime, covered: timedelta) -> Iterator[datetime]:
    start = since - (since - _EPOCH) % covered
    while start < until:
        yield start
        start += covered


async def prune_stats(store: DocumentStore, now: datetime) -> int:
    """Remove expired documents, reading hardly any other."""
    count = 0
    for resolution in (MINUTES, HOURS):
        oldest = resolution.key_of("", now - resolution.kept_for - resolution.covered)
        count += await prune_before(store, resolution.collection, oldest)
    return count


async def prune_before(store: DocumentStore, collection: str, oldest: str) -> int:
    """Remove the documents whose keys are before ``oldest``."""
    removed_count = 0
    async for page in store.scan(collection):
        old = [document for document in page if document.key < oldest]
        if old:
            removals = [DocumentWrite(collection, it.key, it.version, None) for it in old]
            removed_count += sum(it is not None for it in await store.write_each(removals))
        if len(old) < len(page):
            break
    return removed_count
