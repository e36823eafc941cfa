"""Caps: how many jobs of whom may run at once, or be handed out by one lease."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from rota.errors import InvalidInputError

LanePlace: TypeAlias = tuple[str, str]
"""A tenant and a queue."""

CapScope: TypeAlias = tuple[str | None, str | None]
"""Whose jobs: of a tenant and in a queue; None for any."""


class Cap(msgspec.Struct, frozen=True):
    """No more than ``running`` jobs of a scope are leased at once, and ``count`` in this call.

    The scope is a tenant, a queue, or a queue of a tenant; with neither it is all jobs. With 0 its
    jobs wait.
    """

    tenant: str | None = None
    queue: str | None = None
    running: int | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        for field in ("running", "count"):
            value = getattr(self, field)
            if value is not None and (type(value) is not int or value < 0):
                reason = f"must be an integer from 0 on, got {value!r:.40}"
                raise InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})

    @property
    def scope(self) -> CapScope:
        return self.tenant, self.queue


class Room:
    """The places that are left under some caps. ``running_counts`` are the leased jobs by lane."""

    def __init__(self, caps: Iterable[Cap], running_counts: Mapping[LanePlace, int]) -> None:
        self._left: dict[CapScope, int] = {}
        running: Counter[CapScope] = Counter()
        for place, count in running_counts.items():
            for scope in scopes_of(*place):
                running[scope] += count
        for cap in caps:
            for left in _places(cap, running[cap.scope]):
                self._left[cap.scope] = min(left, self._left.get(cap.scope, left))

    def has_place(self, tenant: str, queue: str) -> bool:
        """Whether one more job of this lane may be handed out."""
        return all(self._left.get(scope, 1) > 0 for scope in scopes_of(tenant, queue))

    def take(self, tenant: str, queue: str) -> None:
        """One place less, wherever the lane counts."""
        self._move(tenant, queue, -1)

    def give_back(self, tenant: str, queue: str) -> None:
        """One place more: nobody has taken it."""
        self._move(tenant, queue, 1)

    def full_scopes(self) -> list[CapScope]:
        """The scopes in which there is no place left."""
        return [scope for scope, left in self._left.items() if left <= 0]

    def _move(self, tenant: str, queue: str, places: int) -> None:
        for scope in scopes_of(tenant, queue):
            if scope in self._left:
                self._left[scope] += places


def counts_running(caps: Iterable[Cap]) -> bool:
    """Whether it matters to these caps how many jobs run."""
    return any(cap.running is not None for cap in caps)


def scopes_of(tenant: str, queue: str) -> tuple[CapScope, ...]:
    """All scopes in which a lane counts."""
    return (None, None), (tenant, None), (None, queue), (tenant, queue)


def _places(cap: Cap, running_count: int) -> list[int]:
    left = [] if cap.running is None else [cap.running - running_count]
    return left if cap.count is None else [*left, cap.count]
