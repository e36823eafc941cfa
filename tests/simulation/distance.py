"""Stores on real servers for stories that are played in an event loop of their own.

The store lives in a thread with another loop, so that a story may cancel all that its own loop does
and never touches a connection. Each story sees collections of its own, and thereby an empty store.
"""

import asyncio
from asyncio import AbstractEventLoop, CancelledError
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

from rota.clock.loop import in_flight
from rota.runtime.wiring import open_store
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

Answer = TypeVar("Answer")
PATIENCE_SECONDS = 120


class Elsewhere:
    """A store in the thread where its loop runs."""

    def __init__(self, store: DocumentStore, loop: AbstractEventLoop) -> None:
        self.store = store
        self._loop = loop

    def begin(self, call: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        """Have the call made there."""
        return asyncio.run_coroutine_threadsafe(call, self._loop)


@contextmanager
def opened_elsewhere(url: str) -> Iterator[Elsewhere]:
    """The store at an address, opened in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        opening = asyncio.run_coroutine_threadsafe(open_store(url), loop)
        there = Elsewhere(opening.result(PATIENCE_SECONDS), loop)
        yield there
        there.begin(there.store.close()).result(PATIENCE_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class DistantStore:
    """A part of a store that is elsewhere, as one story has it: a call takes some turns."""

    def __init__(self, there: Elsewhere, name: str) -> None:
        self.reach: Reach = there.store.reach
        self._there = there
        self._name = name

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        pages = self._there.store.scan(f"{self._name}.{collection}")
        while page := await self._ask(_next_page(pages)):
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        return await self._ask(self._there.store.read(f"{self._name}.{collection}", keys))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        return await self._ask(self._there.store.write_each(list(self._rename(writes))))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        await self._ask(self._there.store.write_all(self._rename(list(writes))))

    async def close(self) -> None:
        """It outlives the story."""

    def _rename(self, writes: Iterable[DocumentWrite]) -> Iterator[DocumentWrite]:
        for write in writes:
            yield write._replace(collection=f"{self._name}.{write.collection}")

    async def _ask(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer. A caller that is killed meanwhile has been served before the next call."""
        begun = self._there.begin(call)
        try:
            with in_flight():
                return await asyncio.shield(asyncio.wrap_future(begun))
        except CancelledError:
            begun.exception(PATIENCE_SECONDS)
            raise


class StoreInStep(DistantStore):
    """Time and everything else stand still during a call, which therefore takes no turn at all.

    A store in memory behaves the same: both must give exactly the same trace.
    """

    async def _ask(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        return self._there.begin(call).result(PATIENCE_SECONDS)


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    return await anext(pages, [])
