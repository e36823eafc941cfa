import asyncio
import sys
from collections.abc import AsyncIterator, Generator
from types import coroutine

from rota.clock.loop import describe_stack, describe_tasks, turn


async def lines_of(*coroutines: "asyncio.Future[None]") -> tuple[str, ...]:
    await turn()
    lines = describe_tasks(asyncio.get_running_loop())
    for waiting in coroutines:
        waiting.cancel()
    await asyncio.gather(*coroutines, return_exceptions=True)
    return lines


async def test_a_task_is_shown_at_the_innermost_line_of_the_readers_own() -> None:
    lock = asyncio.Lock()
    await lock.acquire()

    async def inner() -> None:
        await lock.acquire()

    async def outer() -> None:
        await inner()

    (line,) = await lines_of(asyncio.create_task(outer(), name="waiter"))
    assert line.startswith("waiter at ")
    assert line.endswith("in inner: await lock.acquire()")
    assert "test_stuck.py:" in line


async def test_tasks_are_listed_by_name_numbers_in_order() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    names = [f"job-{number}" for number in (10, 2, 1)]
    lines = await lines_of(*(asyncio.create_task(wait(), name=name) for name in names))
    assert [line.split()[0] for line in lines] == ["job-1", "job-2", "job-10"]


async def test_a_task_within_a_generator_is_found() -> None:
    @coroutine
    def old_style() -> Generator[object, None, None]:
        yield from asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await old_style()

    (line,) = await lines_of(asyncio.create_task(wait()))
    assert "in old_style: yield from" in line


async def test_an_asynchronous_generator_is_shown_where_it_is_asked() -> None:
    async def numbers() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    async def wait() -> None:
        async for _ in numbers():
            pass

    (line,) = await lines_of(asyncio.create_task(wait()))
    assert "in wait: async for _ in numbers():" in line


async def test_a_task_of_library_code_alone_is_shown_all_the_same() -> None:
    task: asyncio.Task[None] = asyncio.create_task(
        asyncio.Event().wait()  # type: ignore[arg-type]  # what it returns does not matter
    )
    (line,) = await lines_of(task)
    assert "locks.py" in line


async def test_code_without_source_is_shown_without_text() -> None:
    names: dict[str, object] = {}
    exec("import sys\ndef here():\n return describe(sys._getframe())", names)  # noqa: S102 - ours
    names["describe"] = describe_stack
    here = names["here"]
    assert callable(here)
    assert here() == "<string>:3 in here"


def test_the_stack_of_a_thread_is_shown_by_its_innermost_own_line() -> None:
    assert "test_stuck.py:" in describe_stack(sys._getframe())


def test_an_unknown_stack_is_said_to_be_unknown() -> None:
    assert describe_stack(None) == "an unknown line"
