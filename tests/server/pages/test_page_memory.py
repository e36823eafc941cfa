"""What took long to find out is remembered for a moment."""

import asyncio

import pytest

from rota.server.pages.serving.memory import ShortMemory


class _Watch:
    """Shows what it is told to."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_what_took_long_is_remembered_in_proportion() -> None:
    watch, asked = _Watch(), list[int]()
    memory = ShortMemory(watch)

    async def find_out() -> int:
        asked.append(1)
        watch.seconds += 0.5
        return len(asked)

    assert await memory.recall("t", "q", find_out) == 1
    watch.seconds += 3.9
    assert await memory.recall("t", "q", find_out) == 1
    assert await memory.recall("other", "q", find_out) == 2
    watch.seconds += 0.2
    assert await memory.recall("t", "q", find_out) == 3
    memory.forget("t")
    assert await memory.recall("t", "q", find_out) == 4


async def test_what_is_cheap_is_never_remembered() -> None:
    watch, asked = _Watch(), list[int]()
    memory = ShortMemory(watch)

    async def find_out() -> int:
        asked.append(1)
        watch.seconds += 0.05
        return len(asked)

    assert [await memory.recall("t", "q", find_out) for _ in range(2)] == [1, 2]


async def test_who_asks_at_the_same_time_is_answered_by_one_question() -> None:
    memory, asked, begun, answer = ShortMemory(), list[int](), asyncio.Event(), asyncio.Event()

    async def find_out() -> str:
        asked.append(1)
        begun.set()
        await answer.wait()
        return "found"

    both = asyncio.gather(*(memory.recall("t", "q", find_out) for _ in range(5)))
    await begun.wait()
    answer.set()
    assert await both == ["found"] * 5
    assert asked == [1]


async def test_an_error_is_passed_on_and_not_remembered() -> None:
    memory = ShortMemory()

    async def fail() -> str:
        raise ValueError("no")

    async def succeed() -> str:
        return "yes"

    with pytest.raises(ValueError, match="no"):
        await memory.recall("t", "q", fail)
    assert await memory.recall("t", "q", succeed) == "yes"
