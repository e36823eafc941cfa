"""When the next job is due, as long as the file does not change.

An idle worker asks again and again. While the file has not changed since a look at it found nothing
due, and the next due time has not come, there is no need to look.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple, TypeAlias

MOST_CHOICES = 100
"""How many choices of queues and tenants are remembered."""

Choice: TypeAlias = tuple[frozenset[str] | None, frozenset[str] | None]


class NextDue(NamedTuple):
    """The instant at which the next job is due; None if there is none."""

    at: datetime | None


def make_choice(queues: Collection[str] | None, tenants: Collection[str] | None) -> Choice:
    """Queues and tenants as a key."""
    return (
        None if queues is None else frozenset(queues),
        None if tenants is None else frozenset(tenants),
    )


class DueCache:
    """The due times found in one version of the file. A new version empties it."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._found: dict[Choice, NextDue] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def put(self, version: int | None, choice: Choice, due: NextDue, now: datetime) -> None:
        """Remember what was found in this version or a later one, unless a job is due now."""
        if version is None or (due.at is not None and due.at <= now):
            return
        if version != self._version or len(self._found) >= MOST_CHOICES:
            self._version, self._found = version, {}
        self._found[choice] = due

    def find(self, version: int | None, choice: Choice, now: datetime) -> NextDue | None:
        """The due time, if it is known for this version and has not come."""
        if version != self._version:
            self._version, self._found = None, {}
            return None
        due = self._found.get(choice)
        if due is None or (due.at is not None and due.at <= now):
            return None
        return due
