"""The counters and timings of all workers on a store since it was created.

Every process adds what its workers did to one document. A total therefore never goes back, whether
workers stop, crash or are replaced.
"""

from collections.abc import Iterable, Mapping

import msgspec

from rota.events import JobEvent
from rota.stores.protocol import Document, DocumentStore
from rota.telemetry.counters import COUNTERS, OTHER, Counter, Durations
from rota.telemetry.stats import FIELDS, NO_DURATIONS, STATS, OutcomeCount, OutcomeStats

TOTALS = "totals"
"""The key of the document. It sorts after the hours, so pruning does not reach it."""

MOST_SERIES = 200
"""The number of kinds and queues that are counted by themselves; the rest is ``other``."""

Label = tuple[str, str]
"""A kind and a queue."""

REST: Label = (OTHER, OTHER)


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
        self._picked = 0
        self._kinds: dict[Label, OutcomeCount] = {}

    @property
    def is_empty(self) -> bool:
        return not (self._picked or self._kinds)

    def add_picked(self, count: int) -> None:
        self._picked += count

    def add(self, event: JobEvent, counted: Iterable[Counter], timed: Durations | None) -> None:
        """Count an event that increments these counters and has these durations."""
        label = (event.kind, event.queue)
        count = self._kinds.get(label)
        if count is None:
            count = self._kinds.setdefault(bound_label(label, self._kinds), OutcomeCount())
        count.add(counted, timed)

    def freeze(self) -> FleetTotals:
        kinds = (
            KindTotals(kind=kind, queue=queue, **count.read())
            for (kind, queue), count in self._kinds.items()
        )
        return FleetTotals(picked=self._picked, kinds=tuple(kinds))


def decode_totals(document: Document | None) -> FleetTotals:
    """The totals in the document; none when it is missing or unreadable."""
    if document is None:
        return FleetTotals()
    try:
        return msgspec.json.decode(document.body, type=FleetTotals)
    except msgspec.DecodeError:
        return FleetTotals()


async def read_totals(store: DocumentStore) -> FleetTotals:
    """The totals of all workers. Workers write their counts every few seconds."""
    return decode_totals((await store.read(STATS, [TOTALS])).get(TOTALS))
