"""Suspects run alone: a job whose last worker was lost may be what killed it.

Whatever is in a worker's hands when it dies is lost with it, and after three losses a job is set
aside. So a worker takes nothing more once it has leased a suspect, lets the others end and writes
what became of them, and only then begins it. If that ends well, the job is cleared.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta

from rota.clock.protocol import Clock
from rota.clock.timeout import timeout_after
from rota.jobs import Quarantine, assess_quarantine
from rota.worker.running.held import Held, Stage

ALONE_FOR = timedelta(seconds=10)
"""How long a slight suspect waits for others to end, and how long others then wait for it."""

PATIENT_FOR = timedelta(hours=1)
"""How long a grave suspect waits for others to end; it is then put off for as long again.

And how long others wait for one that runs: it may hang. What has run for so long is no likely
killer, and if it is one after all, those beside it lose one attempt each, for it runs no more."""

NO_LIMIT = 1 << 20


class Solitude:
    """Who has a worker to itself, or waits for that; one job at a time.

    ``begin`` is called when it may start, ``put_off`` when it has waited in vain, and ``on_change``
    when others need not wait for it any more. ``allowance`` is how many jobs may be leased at once:
    where there is one suspect there are more, and whatever is leased beside one is handed back.
    """

    def __init__(
        self,
        clock: Clock,
        in_hand: Collection[Held],
        begin: Callable[[Held], None],
        put_off: Callable[[Held], None],
        on_change: Callable[[], None],
    ) -> None:
        self.allowance = NO_LIMIT
        self._clock = clock
        self._in_hand = in_hand
        self._begin = begin
        self._put_off = put_off
        self._on_change = on_change
        self._suspect: Held | None = None
        self._begun = asyncio.Event()
        self._bound: asyncio.Task[None] | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether nothing may be leased: a suspect runs, or is to run next."""
        return self._suspect is not None and self._suspect.stage is not Stage.ENDED

    @property
    def waiting(self) -> Held | None:
        """The suspect, as long as it waits to be alone."""
        return self._suspect if self.is_claimed and not self._begun.is_set() else None

    def claim(self, held: Held) -> None:
        """Let this job have the worker to itself as soon as may be."""
        self.close()
        self._suspect, self._begun = held, asyncio.Event()
        self.allowance = 1
        is_slight = assess_quarantine(held.job) is Quarantine.SLIGHT
        bound = self._bound_claim if is_slight else self._bound_wait
        self._bound = asyncio.create_task(bound(held, self._begun))
        self.check()

    def check(self) -> None:
        """Begin if all others are out of the worker's hands. Called after every write, so cheap."""
        if self._suspect is not None and self.waiting is not None and len(self._in_hand) == 1:
            self._begun.set()
            self._begin(self._suspect)

    def relax(self) -> None:
        """There was no suspect in a lease: the next may be twice as large."""
        self.allowance = min(2 * self.allowance, NO_LIMIT)

    def close(self) -> None:
        if self._bound is not None:
            self._bound.cancel()
            self._bound = None

    async def _bound_claim(self, held: Held, begun: asyncio.Event) -> None:
        """A worker may also be lost for reasons of its own: that must not hold others up for long.

        What runs for hours is not waited for, nor does what takes hours keep everything waiting.
        """
        await self._wait(begun, ALONE_FOR)
        if self.waiting is held:
            begun.set()
            self._begin(held)
        await self._clock.sleep(ALONE_FOR)
        self._let_others_in()

    async def _bound_wait(self, held: Held, begun: asyncio.Event) -> None:
        """A handler that never ends must not keep a worker from all else for ever.

        Neither one of those that the suspect waits for, nor its own.
        """
        await self._wait(begun, PATIENT_FOR)
        if self.waiting is held:
            self._put_off(held)
            return
        await self._clock.sleep(PATIENT_FOR)
        self._let_others_in()

    def _let_others_in(self) -> None:
        self._suspect = None
        self._on_change()

    async def _wait(self, begun: asyncio.Event, longest: timedelta) -> None:
        with suppress(TimeoutError):
            async with timeout_after(self._clock, longest):
                await begun.wait()
