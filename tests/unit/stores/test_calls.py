"""Calls that run to their end even if their callers stop waiting."""

import asyncio
import gc

import pytest

from rota.clock.idle import in_flight
from rota.stores.calls import Calls


async def answer() -> str:
    return "done"


async def fail() -> str:
    raise ValueError("not today")


async def test_a_call_gives_its_result_or_its_error() -> None:
    calls = Calls()
    assert await calls.run(answer) == "done"
    assert await calls.start(answer) == "done"
    with pytest.raises(ValueError, match="not today"):
        await calls.run(fail)


async def test_a_call_whose_caller_is_cancelled_runs_to_its_end() -> None:
    calls, begun, let_go, ended = Calls(), asyncio.Event(), asyncio.Event(), list[str]()

    async def work() -> None:
        begun.set()
        await let_go.wait()
        ended.append("call")

    caller = asyncio.create_task(calls.run(work))
    await begun.wait()
    caller.cancel()
    await asyncio.wait([caller])
    assert in_flight().count == 1
    let_go.set()
    await calls.finish()
    assert ended == ["call"]
    assert in_flight().count == 0


async def test_a_caller_of_a_call_that_ends_before_it_began_is_cancelled() -> None:
    calls = Calls()

    def end_all() -> None:
        assert len(calls._running) == 1
        for call in calls._running:
            call.cancel()

    waiting = asyncio.ensure_future(calls.run(answer))
    asyncio.get_running_loop().call_soon(end_all)
    await asyncio.wait([waiting], timeout=5)
    assert waiting.cancelled()
    assert not calls._running
    gc.collect()  # would warn of a coroutine that was never awaited


async def test_finishing_waits_for_calls_that_began_meanwhile() -> None:
    calls, ended = Calls(), list[str]()

    async def first() -> None:
        calls.start(second)

    async def second() -> None:
        await asyncio.wait([asyncio.create_task(answer())])
        ended.append("second")

    calls.start(first)
    await calls.finish()
    assert ended == ["second"]
