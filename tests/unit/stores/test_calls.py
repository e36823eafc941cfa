"""Calls that run to their end even if their callers stop waiting, or go together."""

import asyncio
import gc
from collections.abc import Sequence

import pytest

from rota.clock.loop import in_flight, turn
from rota.errors import StaleVersionError, StoreUnavailableError
from rota.stores.calls import GROUP_COUNT, Calls, Groups


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


async def test_a_call_within_a_call_runs_in_its_task() -> None:
    calls = Calls()

    async def work() -> bool:
        outer = asyncio.current_task()

        async def inner() -> bool:
            return asyncio.current_task() is outer

        return await calls.run(inner)

    assert await calls.run(work)


class Desk:
    """Doubles numbers, each group when it is let go; ``fails`` is raised for a group with 13."""

    def __init__(self, fails: Exception | None = None, most: int = 100) -> None:
        self.groups: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()
        self._fails = fails
        self.calls = Calls()
        self.asked = Groups(self.calls, self._write, most)

    async def _write(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        await self.open.wait()
        if self._fails is not None and 13 in items:
            raise self._fails
        return [2 * item for item in items]


async def test_items_of_one_moment_are_a_group() -> None:
    desk = Desk()
    assert await asyncio.gather(*map(desk.asked.run, range(5))) == [0, 2, 4, 6, 8]
    assert desk.groups == [[0, 1, 2, 3, 4]]


async def test_items_that_come_while_all_groups_are_busy_form_the_next() -> None:
    desk = Desk()
    desk.open.clear()
    callers = []
    for number in range(GROUP_COUNT + 3):
        callers.append(asyncio.create_task(desk.asked.run(number)))
        await turn()
        await turn()
    assert desk.groups == [[number] for number in range(GROUP_COUNT)]
    desk.open.set()
    assert await asyncio.gather(*callers) == [2 * number for number in range(GROUP_COUNT + 3)]
    assert desk.groups[GROUP_COUNT:] == [[GROUP_COUNT, GROUP_COUNT + 1, GROUP_COUNT + 2]]


async def test_a_group_is_not_larger_than_allowed() -> None:
    desk = Desk(most=2)
    await asyncio.gather(*map(desk.asked.run, range(5)))
    assert sorted(map(len, desk.groups)) == [1, 2, 2]


async def test_an_item_that_fails_takes_no_other_down() -> None:
    desk = Desk(StaleVersionError("tasks", "a", 1))
    outcomes = await asyncio.gather(*map(desk.asked.run, (1, 13, 2)), return_exceptions=True)
    assert [outcomes[0], outcomes[2]] == [2, 4]
    assert isinstance(outcomes[1], StaleVersionError)


async def test_a_store_that_is_away_is_asked_once_and_each_caller_has_its_own_error() -> None:
    desk = Desk(StoreUnavailableError("away", {"outcome": "unknown"}))
    outcomes = await asyncio.gather(*map(desk.asked.run, (1, 13, 2)), return_exceptions=True)
    assert desk.groups == [[1, 13, 2]]
    assert len(set(map(id, outcomes))) == 3
    assert [each.details for each in outcomes if isinstance(each, StoreUnavailableError)] == [
        {"outcome": "unknown"}
    ] * 3


async def test_items_that_waited_while_a_store_was_tried_in_vain_are_not_tried_after_it() -> None:
    desk = Desk(StoreUnavailableError("away"), most=1)
    desk.open.clear()
    callers = []
    for number in [*[13] * 2 * GROUP_COUNT, 5]:
        callers.append(asyncio.create_task(desk.asked.run(number)))
        await turn()
        await turn()
    desk.open.set()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert list(map(type, outcomes)) == [StoreUnavailableError] * len(callers)
    assert desk.groups == [[13]] * (GROUP_COUNT + 1)
    assert await desk.asked.run(5) == 10


async def test_an_item_whose_caller_is_cancelled_is_written() -> None:
    desk = Desk()
    desk.open.clear()
    callers = [asyncio.create_task(desk.asked.run(number)) for number in range(3)]
    await turn()
    callers[1].cancel()
    desk.open.set()
    await asyncio.wait(callers)
    await desk.calls.finish()
    assert [each for group in desk.groups for each in group] == [0, 1, 2]
    assert [callers[0].result(), callers[2].result()] == [0, 4]


async def test_finishing_waits_for_items_that_wait_for_their_turn() -> None:
    desk = Desk(most=1)
    callers = [asyncio.create_task(desk.asked.run(number)) for number in range(20)]
    await turn()
    await desk.asked.finish()
    assert sum(map(len, desk.groups)) == 20
    await asyncio.gather(*callers)


async def test_groups_that_end_before_they_began_do_not_count_as_busy() -> None:
    desk = Desk()
    callers = [asyncio.create_task(desk.asked.run(number)) for number in range(GROUP_COUNT)]
    await turn()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait(callers)
    assert all(caller.cancelled() for caller in callers)
    async with asyncio.timeout(5):
        assert await desk.asked.run(7) == 14
    assert desk.groups == [[7]]


class Ended(BaseException):
    """Not an error that a caller handles."""


async def test_a_group_without_an_outcome_leaves_no_caller_waiting() -> None:
    async def write(numbers: Sequence[int]) -> Sequence[int]:
        if 13 in numbers:
            raise Ended
        return numbers

    calls = Calls()
    asked = Groups(calls, write, 1)
    callers = [asyncio.create_task(asked.run(each)) for each in [*[13] * GROUP_COUNT, 5, 6]]
    await turn()
    ended = await asyncio.gather(*calls._running, return_exceptions=True)
    assert list(map(type, ended)) == [Ended] * GROUP_COUNT
    async with asyncio.timeout(5):
        await asyncio.wait(callers)
    assert [caller.cancelled() for caller in callers] == [True] * GROUP_COUNT + [False] * 2
    assert [caller.result() for caller in callers[GROUP_COUNT:]] == [5, 6]


async def test_a_group_with_too_few_answers_leaves_no_caller_waiting() -> None:
    async def write(numbers: Sequence[int]) -> Sequence[int]:
        return numbers[:1]

    calls = Calls()
    asked = Groups(calls, write, 100)
    callers = [asyncio.create_task(asked.run(each)) for each in (1, 2)]
    await turn()
    ended = await asyncio.gather(*calls._running, return_exceptions=True)
    assert ValueError in map(type, ended)
    async with asyncio.timeout(5):
        await asyncio.wait(callers)
    assert callers[0].result() == 1
    assert callers[1].cancelled()
