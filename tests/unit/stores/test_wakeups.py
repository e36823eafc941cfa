"""Wake-ups inside one process."""

import asyncio

from rota.stores.kernel.unit import Committed
from rota.stores.wakeups import Wakeups


async def is_woken(waiting: "asyncio.Task[None]") -> bool:
    await asyncio.wait([waiting], timeout=0)
    await asyncio.wait([waiting], timeout=0)
    is_done = waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    return is_done


async def test_only_interested_listeners_are_woken() -> None:
    wakeups = Wakeups()
    async with (
        wakeups.listen(queues=["mail"]) as mail,
        wakeups.listen(tenants=["acme"]) as acme,
        wakeups.listen(queues=["mail"], tenants=["other"]) as neither,
    ):
        wakeups.ring_partitions([("acme", "mail")])
        listeners = (mail, acme, neither)
        heard = [await is_woken(asyncio.create_task(each.wait())) for each in listeners]
    assert heard == [True, True, False]


async def test_several_happenings_are_one() -> None:
    wakeups = Wakeups()
    async with wakeups.listen() as listener:
        wakeups.ring_partitions([("acme", "mail")])
        wakeups.ring_partitions([("acme", "mail")])
        assert await is_woken(asyncio.create_task(listener.wait()))
        assert not await is_woken(asyncio.create_task(listener.wait()))


async def test_nothing_is_heard_when_nothing_became_ready() -> None:
    wakeups = Wakeups()
    async with wakeups.listen() as listener:
        wakeups.ring_partitions([])
        assert not await is_woken(asyncio.create_task(listener.wait()))


async def test_a_listener_that_left_is_forgotten() -> None:
    wakeups = Wakeups()
    async with wakeups.listen() as listener:
        pass
    wakeups.ring_partitions([("acme", "mail")])
    assert not await is_woken(asyncio.create_task(listener.wait()))


async def test_a_commit_wakes_for_what_is_ready_and_for_what_has_ended() -> None:
    wakeups = Wakeups()
    async with wakeups.listen() as listener, wakeups.listen_for_end(["one"]) as end:
        for committed, expected in (
            (Committed(None, {("acme", "mail")}), [True, False]),
            (Committed(None, set(), {"one"}), [False, True]),
            (Committed(None, set(), {"other"}), [False, False]),
        ):
            wakeups.ring(committed)
            heard = [await is_woken(asyncio.create_task(it.wait())) for it in (listener, end)]
            assert heard == expected
