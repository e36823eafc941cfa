"""Who is taken for the primary, when Sentinels differ, are silent or know of none."""

import asyncio
from dataclasses import replace

import pytest
from tests.servers.groups.said_by_sentinels import ToldSentinel, opened

from rota.stores.redis import sentinel as lookout
from rota.stores.redis.address import Place, Sentinels, read_address
from rota.stores.redis.sentinel import Lookout, ask_sentinels
from rota.stores.redis.translation import NoPrimaryError

A_WHILE = 20.0
"""Seconds, on however slow a machine; of waits that are not to be waited for."""
BRIEFLY = 0.3
DOWN = "master,s_down,o_down"


def read(url: str) -> Sentinels:
    sentinels = read_address(url).sentinels
    assert sentinels is not None
    return sentinels


async def find(*sentinels: ToldSentinel, seconds: float = A_WHILE) -> Place:
    async with opened(*sentinels) as url:
        return await ask_sentinels(read(url), seconds)


async def test_the_latest_epoch_is_right() -> None:
    """Of two, both are heard; of three, the first two would be enough."""
    old, new = ToldSentinel("old", 1, 3), ToldSentinel("new", 2, 4)
    assert await find(old, new) == await find(new, old) == ("new", 2)


async def test_an_isolated_sentinel_is_not_believed() -> None:
    cut_off = ToldSentinel("old", 1, 3)
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
        others = [cut_off, *(replace(cut_off, host="new", epoch=4) for _ in range(2))]
        assert await find(*(others[number] for number in order)) == ("new", 1)


async def test_most_are_enough_and_the_rest_is_not_waited_for() -> None:
    silent = ToldSentinel("old", 1, is_silent=True)
    assert await find(silent, ToldSentinel("new", 2), ToldSentinel("new", 2)) == ("new", 2)


async def test_fewer_than_most_must_do_when_no_more_can_be_reached() -> None:
    one = ToldSentinel("new", 2)
    async with opened(one) as url:
        gone = replace(read(url), places=(Place("localhost", 1), *read(url).places))
        assert await ask_sentinels(gone, A_WHILE) == ("new", 2)
    silent = [ToldSentinel("old", 1, is_silent=True) for _ in range(2)]
    assert await find(*silent, one, seconds=BRIEFLY) == ("new", 2)


async def test_a_primary_that_is_taken_for_down_is_not_named() -> None:
    with pytest.raises(NoPrimaryError, match="take the primary of work for down") as caught:
        await find(*(ToldSentinel("old", 1, flags=DOWN) for _ in range(3)))
    assert caught.value.is_answered


async def test_a_sentinel_that_sees_the_primary_is_believed_first() -> None:
    assert await find(ToldSentinel("it", 1, flags=DOWN), ToldSentinel("it", 1)) == ("it", 1)
    with pytest.raises(NoPrimaryError):
        await find(ToldSentinel("it", 1, 2, flags=DOWN), ToldSentinel("it", 1, 1))


async def test_a_successor_is_named_while_the_one_before_is_down() -> None:
    moving = ToldSentinel("new", 2, flags=f"{DOWN},failover_in_progress", known_as=("old", 1))
    assert await find(moving) == ("new", 2)


async def test_each_problem_is_reported() -> None:
    async with opened(ToldSentinel("it", 1), ToldSentinel("it", 1, is_silent=True)) as url:
        asked = replace(read(url), service="play", places=(*read(url).places, Place("[", 1)))
        with pytest.raises(NoPrimaryError, match=r"no Sentinel could be asked for play") as caught:
            await ask_sentinels(asked, BRIEFLY)
    told = str(caught.value)
    assert f"localhost:{asked.places[0].port} said No such master with that name" in told
    assert "1 did not answer in time" in told
    assert not caught.value.is_answered


async def test_a_sentinel_that_forgets_the_service_is_ignored() -> None:
    forgetful = ToldSentinel("old", 1, forgets=True)
    assert await find(forgetful, ToldSentinel("new", 2)) == ("new", 2)
    with pytest.raises(NoPrimaryError, match="said nothing that could be understood"):
        await find(forgetful, replace(forgetful))


async def test_sentinels_are_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    said = ToldSentinel("old", 1)
    async with opened(said) as url:
        looking = Lookout(read(url), A_WHILE)
        assert await looking.find() == ("old", 1)
        said.host = "new"
        await asyncio.gather(*(looking.look_again() for _ in range(5)))
        assert (looking.primary, said.question_count) == (("old", 1), 1)
        monkeypatch.setattr(lookout, "FRESH_FOR", 0.0)
        await looking.find()
        await looking.look_again()
        assert (looking.primary, said.question_count) == (("new", 1), 3)


async def test_unreachable_sentinels_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookout, "FRESH_FOR", 0.0)
    said = ToldSentinel("it", 1)
    async with opened(said) as url:
        looking = Lookout(read(url), A_WHILE)
        await looking.find()
    await looking.look_again()
    assert looking.primary == ("it", 1)
    looking._sentinels = replace(read(url), places=())
    await looking.look_again()  # would raise if it asked
    assert looking.primary == ("it", 1)
