"""Lulls: what is known of the time until the next job is due, while nobody writes.

A worker that has nothing to do asks again and again. As long as the file is the one in which it
last found nothing, and nothing has become due since, there is no need to look.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, TypeAlias

MOST_CHOICES = 100
"""So many choices of queues and tenants are remembered."""

Choice: TypeAlias = tuple[frozenset[str] | None, frozenset[str] | None]


class Lull(NamedTuple):
    """Nothing is due before that; None: nothing will be."""

    due_at: datetime | None


def make_choice(queues: Collection[str] | None, tenants: Collection[str] | None) -> Choice:
    """Queues and tenants as a key."""
    return (
        None if queues is None else frozenset(queues),
        None if tenants is None else frozenset(tenants),
    )


class Lulls:
    """The lulls of one version of the file; those of any other are forgotten."""

    def __init__(self) -> None:
        self._known: tuple[int | None, dict[Choice, Lull]] = (None, {})

    def __bool__(self) -> bool:
        return bool(self._known[1])

    def note(self, version: int | None, choice: Choice, lull: Lull, now: datetime) -> None:
        """The file of that version, or a later one, was found to have nothing due before then."""
        if version is None or (lull.due_at is not None and lull.due_at <= now):
            return
        known_version, lulls = self._known
        if version != known_version or len(lulls) >= MOST_CHOICES:
            lulls = {}
            self._known = version, lulls
        lulls[choice] = lull

    def find(self, version: int | None, choice: Choice, now: datetime) -> Lull | None:
        """The lull in which ``now`` lies, if the file is known to be in one."""
        known_version, lulls = self._known
        if version != known_version:
            self._known = None, {}
            return None
        lull = lulls.get(choice)
        if lull is None or (lull.due_at is not None and lull.due_at <= now):
            return None
        return lull
