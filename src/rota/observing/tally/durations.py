"""Many durations in a few numbers, of which any two can be added up."""

from bisect import bisect_left
from itertools import accumulate

import msgspec

BOUNDS_MS: tuple[float, ...] = (
    1, 2.5, 5, 10, 25, 50, 100, 250, 500,
    1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000,
)  # fmt: skip
"""Up to how many milliseconds the durations of each bucket took; those of the last, longer.

They are part of what is kept: another list would be another record.
"""

NO_BUCKETS = (0,) * (len(BOUNDS_MS) + 1)


class DurationTally(msgspec.Struct, frozen=True, array_like=True):
    """How many durations there were, their sum, the longest, and how many were how long."""

    count: int = 0
    sum_ms: float = 0.0
    longest_ms: float = 0.0
    buckets: tuple[int, ...] = NO_BUCKETS

    def __add__(self, other: "DurationTally") -> "DurationTally":
        return DurationTally(
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

    def quantile(self, share: float) -> float | None:
        """What this share of the durations did not exceed, as far as buckets tell; None of none.

        Within a bucket they are taken to be evenly spread; nothing exceeds the longest.
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
    """DurationTally while they are being counted."""

    __slots__ = ("_buckets", "_count", "_longest_ms", "_sum_ms")

    def __init__(self) -> None:
        self._count = 0
        self._sum_ms = 0.0
        self._longest_ms = 0.0
        self._buckets = list(NO_BUCKETS)

    def add(self, milliseconds: float) -> None:
        self._count += 1
        self._sum_ms += milliseconds
        self._longest_ms = max(self._longest_ms, milliseconds)
        self._buckets[bisect_left(BOUNDS_MS, milliseconds)] += 1

    def freeze(self) -> DurationTally:
        return DurationTally(self._count, self._sum_ms, self._longest_ms, tuple(self._buckets))
