"""A runtime made of parts that do as they are told, or do not."""

import asyncio

import pytest

from rota.runtime.process import Runtime, RuntimeEnd, StopRequest


class Part:
    """Runs until it is stopped, and then for as long as it was told to linger."""

    def __init__(self, name: str, story: list[str], *, lingers: bool = False) -> None:
        self.name = name
        self._story = story
        self._lingers = lingers
        self._wish = StopRequest()

    async def run(self) -> None:
        self._story.append(f"{self.name} began")
        await self._wish.asked.wait()
        if self._lingers:
            await self._wish.hurried.wait()
        self._story.append(f"{self.name} ended")

    def stop(self) -> None:
        self._story.append(f"{self.name} told")
        self._wish.stop()


class Failing(Part):
    async def run(self) -> None:
        raise ValueError("the roof is off")


@pytest.fixture
def story() -> list[str]:
    return []


async def begin(runtime: Runtime) -> "asyncio.Task[RuntimeEnd]":
    running = asyncio.create_task(runtime.run())
    for _ in range(3):
        await asyncio.sleep(0)  # noqa: TID251 - lets the parts begin; no time passes
    return running


async def test_a_stage_is_stopped_once_the_one_before_it_has_ended(story: list[str]) -> None:
    runtime = Runtime([[Part("worker", story)], [Part("web", story)]], story.append)
    running = await begin(runtime)
    runtime.stop()
    assert await running is RuntimeEnd.DRAINED
    assert story == [
        "worker began",
        "web began",
        "Stopping: running jobs finish first. Repeat to stop at once.",
        "worker told",
        "worker ended",
        "web told",
        "web ended",
    ]


async def test_callers_get_their_answer_first(story: list[str]) -> None:
    runtime = Runtime([[Part("worker", story)]], lambda _: None, lambda: story.append("not ready"))
    running = await begin(runtime)
    runtime.stop()
    await running
    assert story.index("not ready") < story.index("worker told")


async def test_a_second_stop_ends_everything_now(story: list[str]) -> None:
    worker, web = Part("worker", story, lingers=True), Part("web", story, lingers=True)
    runtime = Runtime([[worker], [web]], lambda _: None)
    running = await begin(runtime)
    runtime.stop()
    await asyncio.sleep(0)  # noqa: TID251 - lets the first wish be heard; no time passes
    assert not running.done()
    runtime.stop()
    assert await running is RuntimeEnd.AT_ONCE
    assert "worker ended" in story
    assert "web ended" in story


async def test_when_a_part_fails_the_others_drain_and_the_failure_is_raised(
    story: list[str],
) -> None:
    runtime = Runtime([[Failing("worker", story)], [Part("web", story)]], story.append)
    with pytest.raises(ValueError, match="the roof is off"):
        await runtime.run()
    assert "The worker has failed; the rest is stopped." in story
    assert story[-1] == "web ended"


async def test_cancelling_a_process_leaves_nothing_running(story: list[str]) -> None:
    runtime = Runtime([[Part("worker", story, lingers=True)]], story.append)
    running = await begin(runtime)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    assert left == set()


async def test_a_process_without_parts_in_a_stage_still_starts(story: list[str]) -> None:
    runtime = Runtime([[], [Part("web", story)], []], story.append)
    running = await begin(runtime)
    runtime.stop()
    assert await running is RuntimeEnd.DRAINED
