"""A store that is away: asked again after growing pauses, told twice."""

import asyncio
from itertools import pairwise
from random import Random

import pytest
from tests.unit.worker.workshop import NOW

from rota.errors import StoreClosedError, StoreUnavailableError
from rota.events import Event, EventEmitter, StoreFailed, StoreRecovered
from rota.testing import VirtualClock
from rota.worker.outage import FIRST_PAUSE, LONGEST_PAUSE, Outage, Patience, choose_pause


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.told: list[Event] = []
        journal = EventEmitter("rota.worker")
        journal.subscribe(self.told.append)
        self.outage = Outage(journal)

    def make_patience(self) -> Patience:
        return Patience(self.outage, self.clock, Random(3))


@pytest.mark.parametrize("chance", [0.0, 0.999])
def test_pauses_double_up_to_a_limit_and_differ_by_chance(chance: float) -> None:
    pauses = [choose_pause(count, chance) for count in range(1, 40)]
    assert FIRST_PAUSE / 2 <= pauses[0] <= FIRST_PAUSE
    assert pauses[1] == 2 * pauses[0]
    assert LONGEST_PAUSE / 2 <= pauses[-1] <= LONGEST_PAUSE
    assert pauses == sorted(pauses)


async def test_a_store_is_asked_until_it_answers_and_told_of_twice() -> None:
    scene, asked_at = Scene(), []

    async def ask() -> str:
        asked_at.append(scene.clock.now())
        if len(asked_at) < 6:
            raise StoreUnavailableError("away")
        return "answer"

    assert await scene.clock.run(scene.make_patience().ask(ask)) == "answer"
    assert [type(event) for event in scene.told] == [StoreFailed, StoreRecovered]
    gaps = [later - earlier for earlier, later in pairwise(asked_at)]
    assert all(FIRST_PAUSE / 2 <= gap <= LONGEST_PAUSE for gap in gaps)
    assert gaps[-1] > 2 * gaps[0]


async def test_after_an_answer_the_pauses_begin_anew() -> None:
    scene = Scene()
    patience = scene.make_patience()
    for _ in range(10):
        await scene.clock.run(patience.wait(StoreUnavailableError("away")))
    patience.note_answer()
    before = scene.clock.now()
    await scene.clock.run(patience.wait(StoreUnavailableError("away")))
    assert scene.clock.now() - before <= FIRST_PAUSE


async def test_who_is_in_a_hurry_asks_at_once_and_often() -> None:
    scene = Scene()
    patience = scene.make_patience()
    for _ in range(10):
        await scene.clock.run(patience.wait(StoreUnavailableError("away")))
    before = scene.clock.now()
    waiting = asyncio.create_task(patience.wait(StoreUnavailableError("away")))
    await scene.clock.advance(FIRST_PAUSE)
    patience.hurry()
    await scene.clock.run(waiting)
    await scene.clock.run(patience.wait(StoreUnavailableError("away")))
    assert scene.clock.now() - before == 2 * FIRST_PAUSE


async def test_a_closed_store_is_not_waited_for() -> None:
    scene = Scene()

    async def ask() -> None:
        raise StoreClosedError

    with pytest.raises(StoreClosedError):
        await scene.make_patience().ask(ask)
    assert scene.told == []


def test_an_outage_lasts_until_all_whom_the_store_failed_are_answered() -> None:
    scene = Scene()
    error = StoreUnavailableError("away")
    scene.outage.begin("leasing", error)
    scene.outage.begin("settling", error)
    scene.outage.end("heartbeat")
    scene.outage.end("leasing")
    scene.outage.begin("leasing", error)
    assert [type(event) for event in scene.told] == [StoreFailed]
    scene.outage.end("leasing")
    scene.outage.end("settling")
    assert [type(event) for event in scene.told] == [StoreFailed, StoreRecovered]
