"""One listener over the listeners of several shards."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from rota.stores.protocol import Listener


@asynccontextmanager
async def listen_to_all(
    contexts: Iterable[AbstractAsyncContextManager[Listener]],
) -> AsyncIterator[Listener]:
    """A listener that hears what any of these hears, while the context lasts."""
    async with AsyncExitStack() as stack:
        listeners = [await stack.enter_async_context(each) for each in contexts]
        merged = _Merged(listeners)
        try:
            yield merged
        finally:
            await merged.end()


class _Merged:
    """Waits for all shards at once. The waits go on between calls, so no wake-up is lost."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self._waits: dict[int, asyncio.Task[None]] = {}

    async def wait(self) -> None:
        """See ``Listener.wait``."""
        for index, listener in enumerate(self._listeners):
            if index not in self._waits:
                self._waits[index] = asyncio.ensure_future(listener.wait())
        if not self._waits:
            await asyncio.Event().wait()
        await asyncio.wait(self._waits.values(), return_when=asyncio.FIRST_COMPLETED)
        heard = {index: wait for index, wait in self._waits.items() if wait.done()}
        for index in heard:
            del self._waits[index]
        for wait in heard.values():
            wait.result()

    async def end(self) -> None:
        """Stop waiting."""
        for wait in self._waits.values():
            wait.cancel()
        await asyncio.gather(*self._waits.values(), return_exceptions=True)
