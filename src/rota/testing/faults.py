"""A store that fails, comes late, or does as it was told and fails all the same.

Wrap any store in ``FaultyStore`` and say which calls are to suffer what: by number with
``scripted_faults``, by chance with ``seeded_faults``, or with a function of your own. The same
faults fall on the same calls each time.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from random import Random
from typing import NamedTuple, Self, TypeVar

from rota.clock.protocol import Clock
from rota.errors import StoreUnavailableError
from rota.stores.protocol import Document, DocumentStore, DocumentWrite, Reach

Result = TypeVar("Result")


class Failure(Enum):
    """When a call fails: before anything was done, or after everything was."""

    BEFORE = "before it was carried out"
    AFTER = "after it was carried out"


@dataclass(frozen=True, slots=True)
class Fault:
    """What befalls one call: it begins late, its answer comes late, it fails, or several."""

    failure: Failure | None = None
    delay_for: timedelta = timedelta(0)
    answer_delay_for: timedelta = timedelta(0)


class StoreCall(NamedTuple):
    """One call of a store, counted from 1; each page of a scan is a call."""

    number: int
    verb: str


Faults = Callable[[StoreCall], Fault | None]
"""Asked once for each call, in order, what befalls it."""


def scripted_faults(faults: Mapping[int, Fault]) -> Faults:
    """Faults for calls with these numbers, whatever their verb."""
    return lambda call: faults.get(call.number)


def seeded_faults(
    seed: int,
    *,
    fault_share: float,
    failures: Sequence[Failure | None] = (Failure.BEFORE, Failure.AFTER, None),
    longest_delay: timedelta = timedelta(0),
) -> Faults:
    """Faults for about ``fault_share`` of all calls (0 to 1), the same ones for the same seed.

    Each is drawn from ``failures``, None standing for a call that succeeds, and comes with delays
    of up to ``longest_delay`` before the call and before its answer.
    """
    random = Random(seed)  # noqa: S311 - must be repeatable, not secret

    def draw(_: StoreCall) -> Fault | None:
        is_struck = random.random() < fault_share
        fault = Fault(
            random.choice(failures),
            random.random() * longest_delay,
            random.random() * longest_delay,
        )
        return fault if is_struck else None

    return draw


class FaultyStore:
    """Another store, struck by faults. Closing never fails, and closes the other store.

    A delay is waited for on ``clock``. ``call_count`` tells how many calls there were and
    ``injected`` what befell which, so that a test can show that its faults were reached.
    """

    def __init__(self, store: DocumentStore, clock: Clock, faults: Faults) -> None:
        self.reach: Reach = store.reach
        self.call_count = 0
        self.injected: list[tuple[StoreCall, Fault]] = []
        self._store = store
        self._clock = clock
        self._faults = faults

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """The other store's pages, each as a call of its own."""
        pages = self._store.scan(collection)
        while page := await self._suffer("scan", lambda: _next_page(pages)):
            yield page

    async def read(self, collection: str, keys: Sequence[str]) -> dict[str, Document]:
        """As the other store, unless struck."""
        return await self._suffer("read", lambda: self._store.read(collection, keys))

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """As the other store, unless struck."""
        return await self._suffer("write_each", lambda: self._store.write_each(writes))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """As the other store, unless struck."""
        await self._suffer("write_all", lambda: self._store.write_all(writes))

    async def close(self) -> None:
        """Close the other store."""
        await self._store.close()

    async def _suffer(self, verb: str, act: Callable[[], Awaitable[Result]]) -> Result:
        self.call_count += 1
        call = StoreCall(self.call_count, verb)
        fault = self._faults(call)
        if fault is None:
            return await act()
        self.injected.append((call, fault))
        await self._wait(fault.delay_for)
        _fail_if(fault, Failure.BEFORE, call)
        result = await act()
        await self._wait(fault.answer_delay_for)
        _fail_if(fault, Failure.AFTER, call)
        return result

    async def _wait(self, duration: timedelta) -> None:
        if duration:
            await self._clock.sleep(duration)


def _fail_if(fault: Fault, moment: Failure, call: StoreCall) -> None:
    if fault.failure is moment:
        raise StoreUnavailableError(
            f"Injected fault: call {call.number} ({call.verb}) fails {moment.value}",
            {"call": call.number, "verb": call.verb},
        )


async def _next_page(pages: AsyncIterator[Sequence[Document]]) -> Sequence[Document]:
    async for page in pages:
        return page
    return ()
