"""A store as one instance sees it: until the instance dies, and then not at all."""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from tests.verification.simulation.story import CrashAtCall

from rota.clock.loop import turn
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

Result = TypeVar("Result")


class MortalStore:
    """Passes calls on to a store, each with a few turns of the loop on either side.

    Once ``is_dead`` is set, nothing gets through any more: a call under way is cancelled, whether
    or not it had been served, as it is when a process is killed.
    """

    def __init__(
        self, store: DocumentStore, random: Random, turns: int, die: Callable[[], None]
    ) -> None:
        self.reach: Reach = store.reach
        self.is_dead = False
        self._store = store
        self._random = random
        self._turns = turns
        self._die = die
        self._fate: CrashAtCall | None = None
        self._calls_left = 0

    def doom(self, fate: CrashAtCall) -> None:
        """Let the instance die in a coming call."""
        self._fate, self._calls_left = fate, fate.calls_ahead

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        pages = self._store.scan(collection)
        while page := await self._pass_on(lambda: _next_page(pages)):
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        return await self._pass_on(lambda: self._store.read(collection, keys))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        return await self._pass_on(lambda: self._store.write_each(writes))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        await self._pass_on(lambda: self._store.write_all(writes))

    async def close(self) -> None:
        """The store outlives its instances."""

    async def _pass_on(self, act: Callable[[], Awaitable[Result]]) -> Result:
        self._refuse_the_dead()
        is_last = self._is_last_call()
        await self._dawdle()
        if is_last and self._fate is not None and not self._fate.is_served:
            self._die()
        self._refuse_the_dead()
        result = await act()
        if is_last and not self.is_dead:
            self._die()
        self._refuse_the_dead()
        await self._dawdle()
        return result

    def _is_last_call(self) -> bool:
        self._calls_left -= 1
        return self._fate is not None and self._calls_left == 0

    async def _dawdle(self) -> None:
        for _ in range(self._random.randint(0, self._turns) if self._turns else 0):
            await turn()

    def _refuse_the_dead(self) -> None:
        if self.is_dead:
            raise CancelledError


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    return await anext(pages, [])  # a tuple as default is a SystemError in CPython
