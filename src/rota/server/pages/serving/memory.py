"""What took long to find out is not found out again at once.

Pages refresh themselves every few seconds, for as many people as look at them. What is cheap is
looked up each time; what is not is remembered for so long that looking it up again keeps the store
busy for a small share of the time, however many look.
"""

from asyncio import Future, ensure_future, shield
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from rota.clock.system import monotonic

CHEAP_SECONDS = 0.1
"""What takes no longer is never remembered."""

KEPT_TIMES = 8.0
LONGEST_SECONDS = 20.0
MOST_KEPT = 200

Found = TypeVar("Found")


class ShortMemory:
    """Remembers by tenant and question; ``read_seconds`` is replaced in tests only."""

    def __init__(self, read_seconds: Callable[[], float] = monotonic) -> None:
        self._read_seconds = read_seconds
        self._kept: dict[tuple[str, str], tuple[float, Any]] = {}
        self._asking: dict[tuple[str, str], Future[Any]] = {}

    async def recall(
        self, tenant: str, question: str, find_out: Callable[[], Awaitable[Found]]
    ) -> Found:
        """What is remembered, or else what is found out; those who ask at once ask together."""
        key = tenant, question
        until, found = self._kept.get(key, (0.0, None))
        if self._read_seconds() < until:
            return found  # type: ignore[no-any-return]  # kept under a key that only one asks by
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = ensure_future(self._find_out(key, find_out))
        result: Found = await shield(asking)
        return result

    def forget(self, tenant: str) -> None:
        """Somebody has changed something of the tenant's: it is to be seen at once."""
        for key in [each for each in self._kept if each[0] == tenant]:
            del self._kept[key]
        for key in [each for each in self._asking if each[0] == tenant]:
            del self._asking[key]

    async def _find_out(
        self, key: tuple[str, str], find_out: Callable[[], Awaitable[Found]]
    ) -> Found:
        begun = self._read_seconds()
        mine = self._asking.get(key)
        try:
            found = await find_out()
        finally:
            is_current = mine is not None and self._asking.get(key) is mine
            if is_current:
                del self._asking[key]
        ended = self._read_seconds()
        if is_current and ended - begun > CHEAP_SECONDS:
            self._keep(key, ended + min((ended - begun) * KEPT_TIMES, LONGEST_SECONDS), found)
        return found

    def _keep(self, key: tuple[str, str], until: float, found: Any) -> None:
        self._kept.pop(key, None)
        while len(self._kept) >= MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = until, found
