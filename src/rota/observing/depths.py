"""Depths of queues, under a limited number of names."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from rota.stores.jobs import QueueDepth

DEPTHS: Mapping[str, Callable[[QueueDepth], int]] = {
    "due": attrgetter("due_count"),
    "later": attrgetter("later_count"),
    "running": attrgetter("running_count"),
    "stalled": attrgetter("stalled_count"),
    "dead": attrgetter("dead_count"),
}
"""What is told of each queue; the stalled are among the running."""

IDLE = QueueDepth(queue="")
"""A queue without jobs."""


def combine_depths(
    queues: Iterable[QueueDepth], label: Callable[[str], str]
) -> dict[str, QueueDepth]:
    """The queues by their labels; those that share one are taken together."""
    combined: dict[str, QueueDepth] = {}
    for depth in queues:
        name = label(depth.queue)
        combined[name] = _add(combined.get(name, IDLE), depth, name)
    return combined


def _add(one: QueueDepth, other: QueueDepth, name: str) -> QueueDepth:
    due_since = [it.oldest_due_at for it in (one, other) if it.oldest_due_at is not None]
    return QueueDepth(
        queue=name,
        due_count=one.due_count + other.due_count,
        later_count=one.later_count + other.later_count,
        running_count=one.running_count + other.running_count,
        stalled_count=one.stalled_count + other.stalled_count,
        dead_count=one.dead_count + other.dead_count,
        oldest_due_at=min(due_since, default=None),
    )
