"""What an instance believes of tasks that others run."""

from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from rota import Scheduler, open_store
from rota.testing import VirtualClock
from rota.testing.faults import Fault, FaultyStore, StoreCall

TEN = datetime(2024, 3, 4, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STUCK_FOR = timedelta(minutes=5)


@pytest.mark.clause("D-64")
async def test_an_instance_that_lives_but_does_nothing_holds_up_no_other() -> None:
    """The first one gets no answer from its store any more; its last run is settled by then."""
    clock = VirtualClock(TEN)
    started: list[tuple[str, datetime]] = []
    is_stuck = False

    def strike(_: StoreCall) -> Fault | None:
        return Fault(delay_for=STUCK_FOR) if is_stuck else None

    def make(instance: str) -> list[tuple[str, str, Callable[[], Awaitable[None]], timedelta]]:
        async def run() -> None:
            started.append((instance, clock.now()))
            await clock.sleep(timedelta(seconds=5))

        return [("a", "* * * * *", run, MINUTE)]

    async with await open_store("memory://") as store:
        first = Scheduler(FaultyStore(store, clock, strike), clock=clock, zone=UTC)
        second = Scheduler(store, clock=clock, zone=UTC)
        await first.initialize(make("first"))
        await clock.advance(timedelta(seconds=1))
        await second.initialize(make("second"))
        await clock.advance(timedelta(seconds=9))
        assert started == [("first", TEN)]
        is_stuck = True
        await clock.advance_to(TEN + 4 * MINUTE)
        assert started[1:] == [("second", TEN + number * MINUTE) for number in range(1, 5)]
        is_stuck = False
        await clock.advance_to(TEN + 9.5 * MINUTE)
        assert Counter(at for _, at in started) == {TEN + n * MINUTE: 1 for n in range(10)}
        await first.stop()
        await second.stop()
