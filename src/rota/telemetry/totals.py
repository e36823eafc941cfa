"""The counters and timings of all workers on a store since it was created.

Every process adds what its workers did to one document. A total therefore never goes back, whether
workers stop, crash or are replaced.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from rota.events import JobEvent
from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import Document, DocumentStore
from rota.telemetry.counters import COUNTERS, Counter, Durations
from rota.telemetry.stats import (
    FIELDS,
    NO_DURATIONS,
    REST,
    STATS,
    DepthSample,
    MinuteStats,
    OutcomeCount,
    OutcomeStats,
    PartStats,
    add_parts,
    max_depth,
)

TOTALS = "totals"
"""The key of the document. It sorts after the hours, so pruning does not reach it."""

MOST_SERIES = 200
"""The number of kinds and queues that are counted by themselves; the rest is ``other``."""

Label = tuple[str, str]
"""A kind and a queue."""


class KindTotals(OutcomeStats, frozen=True, kw_only=True, omit_defaults=True):
    """The ended attempts of one kind in one queue."""

    kind: str
    queue: str


class FleetTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``picked`` is the number of leased jobs; ``kinds`` has each kind and queue once."""

    picked: int = 0
    kinds: tuple[KindTotals, ...] = ()

    def __add__(self, other: "FleetTotals") -> "FleetTotals":
        kinds: dict[Label, KindTotals] = {}
        for each in (*self.kinds, *other.kinds):
            label = bound_label((each.kind, each.queue), kinds)
            known = kinds.get(label) or KindTotals(kind=label[0], queue=label[1])
            kinds[label] = KindTotals(kind=known.kind, queue=known.queue, **known.summed(each))
        return FleetTotals(picked=self.picked + other.picked, kinds=tuple(kinds.values()))

    def counts(self) -> dict[Counter, int]:
        """Specification 3's counters."""
        ended: dict[Counter, int] = {
            name: sum(getattr(it, field) for it in self.kinds) for name, field in FIELDS.items()
        }
        return {name: ended.get(name, self.picked) for name in COUNTERS}

    def outcomes(self) -> OutcomeStats:
        """All kinds and queues together."""
        total = OutcomeStats(handler=NO_DURATIONS, wait=NO_DURATIONS)
        for each in self.kinds:
            total = OutcomeStats(**total.summed(each))
        return total


def bound_label(label: Label, known: Mapping[Label, object]) -> Label:
    """The label, or ``REST`` if too many others are known."""
    return label if label in known or len(known) < MOST_SERIES else REST


class TotalsCount:
    """A mutable FleetTotals for counting."""

    def __init__(self) -> None:
        self.picked = 0
        self.kinds: dict[Label, OutcomeCount] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.picked or self.kinds)

    def add_picked(self, count: int) -> None:
        self.picked += count

    def add(self, event: JobEvent, counted: Iterable[Counter], timed: Durations | None) -> None:
        """Count an event that increments these counters and has these durations."""
        label = (event.kind, event.queue)
        (self.kinds.get(label) or self._find(label)).add(counted, timed)

    def merge(self, other: "TotalsCount") -> None:
        """Add what the other has counted."""
        self.picked += other.picked
        for label, count in other.kinds.items():
            self._find(label).merge(count)

    def _find(self, label: Label) -> OutcomeCount:
        return self.kinds.setdefault(bound_label(label, self.kinds), OutcomeCount())

    def freeze(self) -> FleetTotals:
        kinds = (
            KindTotals(kind=kind, queue=queue, **count.read())
            for (kind, queue), count in self.kinds.items()
        )
        return FleetTotals(picked=self.picked, kinds=tuple(kinds))


class MinuteCount(TotalsCount):
    """What a tenant's jobs did in one minute; counted once, for the minute and for the totals."""

    def __init__(self) -> None:
        super().__init__()
        self._depth: DepthSample | None = None

    def note_depth(self, depth: DepthSample) -> None:
        self._depth = max_depth(self._depth, depth)

    def read_minute(self, at: datetime) -> MinuteStats:
        """All kinds and queues together."""
        total, parts = OutcomeCount(), []
        for (kind, queue), count in self.kinds.items():
            total.merge(count)
            counts = count.counts
            failed = counts["failed"] + counts["stalled"]
            if counts["succeeded"] or failed:
                ended = counts["succeeded"], failed, counts["dead"]
                parts.append(PartStats(kind, queue, *ended, count.handler.freeze()))
        return MinuteStats(at=at, depth=self._depth, parts=add_parts((), parts), **total.read())


def decode_totals(document: Document | None) -> FleetTotals:
    """The totals in the document; none when it is missing or unreadable."""
    return decode_body(document, FleetTotals, FleetTotals())


async def read_totals(store: DocumentStore) -> FleetTotals:
    """The totals of all workers. Workers write their counts every few seconds."""
    return decode_totals(await find_document(store, STATS, TOTALS))
