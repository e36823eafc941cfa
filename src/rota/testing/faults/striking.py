"""How a fault strikes a call."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from threading import Lock
from typing import TypeVar

from rota.clock.protocol import Clock
from rota.errors import StoreUnavailableError
from rota.testing.faults.plan import Failure, Fault, Faults, StoreCall

Result = TypeVar("Result")


class Striker:
    """Counts the calls and lets each suffer what it is meant to."""

    def __init__(self, clock: Clock, faults: Faults) -> None:
        self.call_count = 0
        self.injected: list[tuple[StoreCall, Fault]] = []
        self._clock = clock
        self._faults = faults
        self._lock = Lock()  # a keeper of leases calls from another thread

    async def suffer(self, verb: str, act: Callable[[], Awaitable[Result]]) -> Result:
        """Carry out a call, or not, and answer, or not."""
        call, fault = self.meet(verb)
        await self._wait(fault.delay_for)
        _fail_if(fault, call, Failure.BEFORE, Failure.LOST)
        result = await act()
        await self._wait(fault.answer_delay_for)
        _fail_if(fault, call, Failure.AFTER)
        return result

    def suffer_at_once(self, verb: str, act: Callable[[], Result]) -> Result:
        """The same in a thread without an event loop, where no delay is waited for."""
        call, fault = self.meet(verb)
        _fail_if(fault, call, Failure.BEFORE, Failure.LOST)
        result = act()
        _fail_if(fault, call, Failure.AFTER)
        return result

    def meet(self, verb: str) -> tuple[StoreCall, Fault]:
        """Count one more call; what befalls it may be nothing."""
        with self._lock:
            self.call_count += 1
            call = StoreCall(self.call_count, verb)
            fault = self._faults(call)
            if fault is not None:
                self.injected.append((call, fault))
        return call, fault or Fault()

    async def _wait(self, duration: timedelta) -> None:
        if duration:
            await self._clock.sleep(duration)


def _fail_if(fault: Fault, call: StoreCall, *moments: Failure) -> None:
    if fault.failure in moments:
        raise StoreUnavailableError(
            f"Injected fault: call {call.number} ({call.verb}) fails {fault.failure.value}",
            {"call": call.number, "verb": call.verb, "outcome": fault.failure.outcome},
        )
