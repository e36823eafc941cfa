"""Writers that go on while their server is killed, and know what was acknowledged to them."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from rota.clock.system import SystemClock
from rota.errors import StoreUnavailableError
from rota.stores.protocol import DocumentStore, DocumentWrite

Result = TypeVar("Result")

CLOCK, A_MOMENT = SystemClock(), timedelta(milliseconds=10)


class Counters:
    """Writers that each count up a document of their own, and know what was acknowledged."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self.acknowledged: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.errors: list[StoreUnavailableError] = []
        self.is_stopping = False

    @property
    def total(self) -> int:
        return self.acknowledged.total()

    async def reach(self, goal: int) -> None:
        while self.total < goal:
            await CLOCK.sleep(A_MOMENT)

    async def count_up(self, key: str) -> None:
        version: int | None = None
        while not self.is_stopping:
            try:
                (written,) = await self._store.write_each(
                    [DocumentWrite("counters", key, version, key.encode())]
                )
            except StoreUnavailableError as error:
                version = await self._look_up(key, version, error)
            else:
                assert written == (version or 0) + 1, (
                    "a write that only this process made was refused"
                )
                version = written
                self.acknowledged[key] += 1

    async def _look_up(
        self, key: str, before: int | None, error: StoreUnavailableError
    ) -> int | None:
        """The version there is after a write that failed, which may have been carried out."""
        self.errors.append(error)
        found = await _until_available(lambda: self._store.read("counters", [key]))
        now = found[key].version if found else None
        if now != before:
            assert now == (before or 0) + 1, "a write was carried out twice"
            assert error.details["outcome"] == "unknown"
            self.unknown[key] += 1
        return now


async def _until_available(call: Callable[[], Awaitable[Result]]) -> Result:
    while True:
        try:
            return await call()
        except StoreUnavailableError:
            await CLOCK.sleep(A_MOMENT)
