"""Sessions of an app: an open store and a clock, one for each event loop that uses the app.

A call in an event loop in which the app is open runs there. Every other call runs in the bridge,
which opens the store when it is first used.
"""

import asyncio
import os
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from secrets import randbits
from typing import TypeAlias, TypeVar

from rota.bridge import Bridge
from rota.clock.loop import in_flight
from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import AppUseError
from rota.jobs import JobId, make_job_id, make_job_ids
from rota.jobs.fields import RANDOM_BITS
from rota.rail.jobs import RailContext, RailSettings
from rota.runtime.wiring import open_clock, open_store
from rota.stores.opened import BlockingStore, OpenStore

Value = TypeVar("Value")

_MEMORY = "memory://"


class Session:
    """An open store and its clock, in one event loop."""

    __slots__ = ("blocking_store", "clock", "is_shared", "loop", "store")

    def __init__(
        self, store: OpenStore, clock: Clock, loop: AbstractEventLoop, *, is_shared: bool
    ) -> None:
        self.store = store
        self.clock = clock
        self.loop = loop
        self.is_shared = is_shared
        """All threads must use it, because its store or its time exists only there."""
        self.blocking_store = store if isinstance(store, BlockingStore) else None

    def make_id(self, now: datetime) -> JobId:
        return make_job_id(now, randbits(RANDOM_BITS))

    def make_ids(self, now: datetime, count: int) -> list[JobId]:
        """As ``make_id``, for jobs that keep their order."""
        if count == 1:  # takes a third of the time
            return [self.make_id(now)]
        return make_job_ids(now, randbits(RANDOM_BITS), count)

    def as_rail(self, tenant: str) -> RailContext:
        """The same for the functions that act on a tenant's jobs."""
        return RailContext(self.store, tenant, self.clock, RailSettings(), randbits)


Work: TypeAlias = Callable[[Session], Awaitable[Value]]


class _Opening:
    """A session that is open, or being opened, for ``count`` users in one event loop."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = asyncio.Lock()
        self.stack = AsyncExitStack()


class Sessions:
    """The open sessions of one app in this process."""

    def __init__(self, store_url: str, clock: Clock | None) -> None:
        self.store_url = store_url
        self._clock = clock
        self._process_id = os.getpid()
        self._open: dict[AbstractEventLoop, Session] = {}
        self._openings: dict[AbstractEventLoop, _Opening] = {}
        self._left_behind: list[object] = []
        self._bridge = Bridge(self._close_own)

    def current(self) -> Session | None:
        """The session of the running event loop, if the app is open in it."""
        if self._process_id != os.getpid():
            self._leave_behind()
        return self._open.get(asyncio.get_running_loop())

    async def run(self, work: Work[Value]) -> Value:
        """Run the work with the session of this event loop, or else in the bridge."""
        session = self.current()
        if session is not None:
            return await work(session)
        shared = self._find_shared()
        if shared is not None:
            waiting = asyncio.run_coroutine_threadsafe(_run(work, shared), shared.loop)
            return await asyncio.wrap_future(waiting)
        with in_flight():
            return await self._bridge.wait(self._run_in_bridge(work))

    def run_sync(self, work: Work[Value]) -> Value:
        """Run the work, and block this thread until it has ended."""
        if self._process_id != os.getpid():
            self._leave_behind()
        shared = self._find_shared()
        if shared is None:
            return self._bridge.call(lambda: self._run_in_bridge(work))
        if asyncio._get_running_loop() is shared.loop:  # noqa: SLF001 - public in all but its name
            raise AppUseError(
                "A _sync call in the event loop in which the app is open would wait for itself: "
                "this store exists only there; await the call without _sync"
            )
        return asyncio.run_coroutine_threadsafe(_run(work, shared), shared.loop).result()

    def find_blocking(self) -> tuple[Session, BlockingStore] | None:
        """The bridge's session, if its store is open and can write in this thread."""
        loop = self._bridge.loop
        if loop is None or self._process_id != os.getpid():
            return None
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - public in all but its name
            return None
        session = self._open.get(loop)
        if session is None or session.blocking_store is None or self._find_shared() is not None:
            return None
        return session, session.blocking_store

    async def enter(self) -> Session:
        """Open the app in the running event loop; ``leave`` is called as often as this."""
        loop = asyncio.get_running_loop()
        known = self.current()
        if known is None and self._find_shared() is not None:
            raise AppUseError(
                f"The app is open in another event loop, and its store {self.store_url} exists "
                "only there; use a store that several loops can share, such as sqlite:///rota.db"
            )
        opening = self._openings.setdefault(loop, _Opening())
        opening.count += 1
        try:
            async with opening.lock:
                session = self._open.get(loop)
                if session is None:
                    session = await self._make_session(opening.stack, None, None)
                    opening.stack.callback(self._open.pop, loop, None)
                    self._open[loop] = session
        except BaseException:
            await self.leave()
            raise
        return session

    async def leave(self) -> None:
        """Close what ``enter`` opened, if no one else uses it."""
        loop = asyncio.get_running_loop()
        opening = self._openings[loop]
        opening.count -= 1
        if not opening.count:
            del self._openings[loop]
            await opening.stack.aclose()

    @asynccontextmanager
    async def opened(
        self, store: OpenStore | None = None, clock: Clock | None = None
    ) -> AsyncIterator[Session]:
        """Open the app in the running event loop, on its own store or on one that is open."""
        if store is None:
            entered = await self.enter()
            try:
                yield entered
            finally:
                await self.leave()
            return
        loop, known = asyncio.get_running_loop(), self.current()
        async with AsyncExitStack() as stack:
            session = self._open[loop] = await self._make_session(stack, store, clock)
            try:
                yield session
            finally:
                self._open.pop(loop, None)
                if known is not None:
                    self._open[loop] = known

    def close_bridge(self) -> None:
        self._bridge.close()

    async def _make_session(
        self, stack: AsyncExitStack, store: OpenStore | None, clock: Clock | None
    ) -> Session:
        chosen = clock or self._clock
        if store is None:
            store = await stack.enter_async_context(await open_store(self.store_url))
            if chosen is None or keeps_real_time(chosen):
                chosen = await stack.enter_async_context(open_clock(store))
        elif chosen is None:
            chosen = await stack.enter_async_context(open_clock(store))
        # A store in memory and a virtual clock belong to one event loop.
        is_shared = self.store_url == _MEMORY or not keeps_real_time(chosen)
        return Session(store, chosen, asyncio.get_running_loop(), is_shared=is_shared)

    def _find_shared(self) -> Session | None:
        """The session that all threads must use, if there is one."""
        for session in tuple(self._open.values()):
            if session.is_shared:
                return session
        return None

    async def _run_in_bridge(self, work: Work[Value]) -> Value:
        return await work(await self._open_own())

    async def _open_own(self) -> Session:
        """The bridge's own session; opened once."""
        return self._open.get(asyncio.get_running_loop()) or await self.enter()

    async def _close_own(self) -> None:
        opening = self._openings.pop(asyncio.get_running_loop(), None)
        if opening is not None:
            await opening.stack.aclose()

    def _leave_behind(self) -> None:
        """Forget what the parent process has open: its connections are not for this one."""
        self._left_behind += [dict(self._open), dict(self._openings)]
        self._process_id = os.getpid()
        self._open.clear()
        self._openings.clear()


async def _run(work: Work[Value], session: Session) -> Value:
    return await work(session)
