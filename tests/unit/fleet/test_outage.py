"""A store that is away: retried after growing pauses, reported once."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from tests.unit.worker.workshop import NOW

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.events import Event, EventEmitter, StoreFailed, StoreRecovered
from rota.fleet.outage import FIRST_PAUSE, LONGEST_PAUSE, Backoff, Outage, StoreRetry
from rota.testing import VirtualClock


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.emitted: list[Event] = []
        events = EventEmitter("rota.worker")
        events.subscribe(self.emitted.append)
        self.outage = Outage(events)

    def make_retry(self) -> StoreRetry:
        return StoreRetry(self.outage, self.clock, Random(3))


@pytest.mark.parametrize("chance", [0.0, 0.999])
def test_pauses_double_up_to_a_limit_and_differ_by_chance(chance: float) -> None:
    class Fixed(Random):
        def random(self) -> float:
            return chance

    backoff = Backoff(random=Fixed())
    pauses = [backoff.take() for _ in range(1, 40)]
    assert FIRST_PAUSE / 2 <= pauses[0] <= FIRST_PAUSE
    assert pauses[1] == 2 * pauses[0]
    assert LONGEST_PAUSE / 2 <= pauses[-1] <= LONGEST_PAUSE
    assert pauses == sorted(pauses)


def test_pauses_without_chance_are_exact_and_start_again_after_a_reset() -> None:
    second = timedelta(seconds=1)
    backoff = Backoff(second, 5 * second)
    assert [backoff.take() for _ in range(4)] == [second, 2 * second, 4 * second, 5 * second]
    backoff.reset()
    assert backoff.take() == second


async def test_a_store_is_retried_until_it_answers_and_reported_twice() -> None:
    scene, called_at = Scene(), []

    async def act() -> str:
        called_at.append(scene.clock.now())
        if len(called_at) < 6:
            raise StoreUnavailableError("away")
        return "answer"

    assert await scene.clock.run(scene.make_retry().call(act)) == "answer"
    assert [type(event) for event in scene.emitted] == [StoreFailed, StoreRecovered]
    gaps = [later - earlier for earlier, later in pairwise(called_at)]
    assert all(FIRST_PAUSE / 2 <= gap <= LONGEST_PAUSE for gap in gaps)
    assert gaps[-1] > 2 * gaps[0]


async def test_after_an_answer_the_pauses_start_again() -> None:
    scene = Scene()
    retry = scene.make_retry()
    for _ in range(10):
        await scene.clock.run(retry.wait(StoreUnavailableError("away")))
    retry.note_answer()
    before = scene.clock.now()
    await scene.clock.run(retry.wait(StoreUnavailableError("away")))
    assert scene.clock.now() - before <= FIRST_PAUSE


async def test_a_hurried_retry_is_immediate_and_then_frequent() -> None:
    scene = Scene()
    retry = scene.make_retry()
    for _ in range(10):
        await scene.clock.run(retry.wait(StoreUnavailableError("away")))
    before = scene.clock.now()
    waiting = asyncio.create_task(retry.wait(StoreUnavailableError("away")))
    await scene.clock.advance(FIRST_PAUSE)
    retry.hurried.set()
    await scene.clock.run(waiting)
    await scene.clock.run(retry.wait(StoreUnavailableError("away")))
    assert scene.clock.now() - before == 2 * FIRST_PAUSE


async def test_a_closed_store_is_not_retried() -> None:
    scene = Scene()

    async def act() -> None:
        raise StoreClosedError

    with pytest.raises(StoreClosedError):
        await scene.make_retry().call(act)
    assert scene.emitted == []


def test_an_outage_lasts_until_every_failed_caller_is_answered() -> None:
    scene = Scene()
    error = StoreUnavailableError("away")
    assert not scene.outage.is_on
    scene.outage.begin("producer", error)
    scene.outage.begin("completer", error)
    scene.outage.end("heartbeat")
    scene.outage.end("producer")
    scene.outage.begin("producer", error)
    assert scene.outage.is_on
    assert [type(event) for event in scene.emitted] == [StoreFailed]
    scene.outage.end("producer")
    scene.outage.end("completer")
    assert [type(event) for event in scene.emitted] == [StoreFailed, StoreRecovered]
