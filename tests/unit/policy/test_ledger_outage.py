"""A store that is away for a moment does not cause an effect to be repeated."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import StoreUnavailableError
from rota.policy.once import EffectState, Ledger
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock
from rota.testing.faults import Failure, Fault, FaultyStore, StoreCall

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Stage:
    """A ledger on a store that is away for a while as soon as the effect has happened."""

    def __init__(self, failure: Failure, away_for: timedelta) -> None:
        self.clock = VirtualClock(NOW)
        self.sent_at: list[datetime] = []
        self._fault = Fault(failure)
        self._away_for = away_for
        store = FaultyStore(MemoryStore(), self.clock, self._strike)
        self.ledger = Ledger(store, self.clock)

    async def send_once(self) -> int:
        result: int = await self.ledger.once("t", "k", self._send)
        return result

    def _send(self) -> int:
        self.sent_at.append(self.clock.now())
        return len(self.sent_at)

    def _strike(self, _: StoreCall) -> Fault | None:
        is_away = self.sent_at and self.clock.now() < self.sent_at[0] + self._away_for
        return self._fault if is_away else None


@pytest.mark.parametrize("failure", Failure)
async def test_an_effect_is_recorded_when_the_store_is_back(failure: Failure) -> None:
    stage = Stage(failure, away_for=30 * SECOND)
    assert await stage.clock.run(stage.send_once()) == 1
    effect = await stage.ledger.find("t", "k")
    assert effect is not None
    assert (effect.state, effect.ended_at) == (EffectState.DONE, NOW)
    assert await stage.clock.run(stage.send_once()) == 1
    assert stage.sent_at == [NOW]


async def test_a_store_that_stays_away_is_not_waited_for_longer_than_a_claim_lasts() -> None:
    stage = Stage(Failure.BEFORE, away_for=timedelta(hours=1))
    with pytest.raises(StoreUnavailableError):
        await stage.clock.run(stage.send_once())
    assert stage.clock.now() == NOW + timedelta(minutes=1)
