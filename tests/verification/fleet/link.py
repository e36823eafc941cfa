"""The way from a process to the store: slow, out of order, cut, and losing calls and answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from tests.verification.fleet.hosts import Host, start_outside
from tests.verification.fleet.server import READS, WRITES, Operation, StoreServer

from rota.clock.virtual import VirtualClock
from rota.errors import StoreClosedError, StoreUnavailableError
from rota.stores.protocol import Document, Listener, Reach

_NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class Weather:
    """How links behave while there are faults.

    Of ``fault_share`` of the calls, one in four is refused, one lost, one carried out without an
    answer, and one carried out long after its caller got an error. Every call and every answer
    takes up to ``longest_delay`` of its own, so that calls overtake each other.
    """

    fault_share: float = 0.0
    longest_delay: timedelta = _NO_TIME
    latest: timedelta = timedelta(seconds=3)


CALM = Weather()
_FATES = ("refused", "lost", "unanswered", "late")


class Link:
    """The store as one process sees it. ``reads_clock`` if the store has a clock of its own."""

    def __init__(
        self, host: Host, server: StoreServer, time: VirtualClock, *, reads_clock: bool
    ) -> None:
        self.reach = Reach.NETWORK if reads_clock else Reach.HOST
        self.weather = CALM
        self.is_cut = False
        self.fault_count = 0
        self.on_fault: Callable[[str, timedelta], object] | None = None
        self._host = host
        self._server = server
        self._time = time
        self._random: Random = host.random
        self._reads_clock = reads_clock

    def __getattr__(self, verb: str) -> Any:
        if verb not in WRITES and verb not in READS:
            raise AttributeError(verb)
        return partial(self._call, verb)

    async def read_clock(self) -> datetime | None:
        """The time of the store's host, which is the true one."""
        if not self._reads_clock:
            return None
        await self._host.pass_gate()
        await self._travel()
        if self.is_cut or not self._server.is_up:
            raise _unavailable("read_clock", is_known=True)
        shown = self._time.now()
        await self._travel()
        await self._host.pass_gate()
        return shown

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        pages = self._server.scan(collection)
        while page := await self._ask(lambda: _next_page(pages), "scan"):
            yield page

    @asynccontextmanager
    async def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AsyncIterator[Listener]:
        self._refuse_if_cut("listen")
        async with self._server.inner.listen(queues, tenants) as listener:
            yield _LinkedListener(listener, self)

    @asynccontextmanager
    async def listen_for_end(
        self, tenant: str, job_ids: Collection[str]
    ) -> AsyncIterator[Listener]:
        self._refuse_if_cut("listen_for_end")
        async with self._server.inner.listen_for_end(tenant, job_ids) as listener:
            yield _LinkedListener(listener, self)

    async def close(self) -> None:
        """The server outlives its clients."""

    async def pass_wake_up(self) -> bool:
        """Whether a notification arrives."""
        await self._host.pass_gate()
        return not self.is_cut and self._random.random() >= self.weather.fault_share

    async def _call(self, verb: str, *given: Any, **named: Any) -> Any:
        operation: Operation = await self._ask(
            lambda: self._server.carry_out(verb, *given, **named), verb
        )
        operation.is_answered = True
        if operation.refusal is not None:
            raise operation.refusal
        return operation.answer

    async def _ask(self, act: Any, verb: str) -> Any:
        """What the server answers, if the call and its answer come through."""
        host, weather = self._host, self.weather
        await host.pass_gate()
        fate, is_last = self._draw_fate(verb), host.count_call()
        if is_last and not host.is_served_last:
            host.die()
        if fate == "refused" or self.is_cut or not host.is_alive:
            raise _unavailable(verb, is_known=fate == "refused")
        if fate == "late":
            self._send(self._deliver_late(act))
        if fate in ("lost", "late"):
            await self._travel()
            raise _unavailable(verb, is_known=False)
        if weather.longest_delay:
            answer = await asyncio.shield(self._send(self._deliver(act, verb)))
        else:
            answer = await self._deliver(act, verb)
        if is_last:
            host.die()
        await self._travel()
        await host.pass_gate()
        is_cut: bool = self.is_cut  # perhaps since the call was made
        if fate == "unanswered" or is_cut or getattr(answer, "is_lost", False):
            raise _unavailable(verb, is_known=False)
        return answer

    async def _deliver(self, act: Any, verb: str) -> Any:
        await self._travel()
        if not self._server.is_up:
            raise _unavailable(verb, is_known=True)
        return await act()

    async def _deliver_late(self, act: Any) -> None:
        await self._time.sleep(self._random.random() * self.weather.latest)
        if self._server.is_up:
            await act()

    def _send(self, delivery: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """What is on its way does not die with its sender."""
        task = start_outside(delivery)
        task.add_done_callback(_note_result)
        return task

    async def _travel(self) -> None:
        longest = self.weather.longest_delay
        if longest:
            await self._time.sleep(self._random.random() * longest)

    def _draw_fate(self, verb: str) -> str | None:
        is_struck = self._random.random() < self.weather.fault_share
        self.fault_count += is_struck
        is_away = self.is_cut or not self._server.is_up
        if self.on_fault is not None and (is_struck or is_away or self.weather.longest_delay):
            self.on_fault(verb, 2 * self.weather.longest_delay)
        return self._random.choice(_FATES) if is_struck else None

    def _refuse_if_cut(self, verb: str) -> None:
        if self.is_cut or not self._server.is_up:
            raise _unavailable(verb, is_known=True)


class _LinkedListener:
    def __init__(self, listener: Listener, link: Link) -> None:
        self._listener = listener
        self._link = link

    async def wait(self) -> None:
        has_arrived = False
        while not has_arrived:
            try:
                await self._listener.wait()
            except StoreClosedError as error:
                raise _unavailable("listen", is_known=True) from error
            has_arrived = await self._link.pass_wake_up()


def _unavailable(verb: str, *, is_known: bool) -> StoreUnavailableError:
    outcome = "nothing was written" if is_known else "unknown"
    return StoreUnavailableError(f"{verb} did not come through", {"outcome": outcome})


def _note_result(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    return await anext(pages, [])
