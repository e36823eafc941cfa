"""A coroutine in a context of its own, without a task of its own."""

import asyncio
from contextvars import ContextVar

import pytest

from rota.clock.loop import turn
from rota.worker.executor import isolated

variable = ContextVar("variable", default="outside")


async def test_context_variables_set_by_the_work_stay_inside_it() -> None:
    async def work() -> list[str]:
        seen = [variable.get()]
        variable.set("inside")
        await turn()
        seen.append(variable.get())
        return seen

    assert await isolated(work()) == ["outside", "inside"]
    assert variable.get() == "outside"


async def test_it_runs_in_the_same_task() -> None:
    async def work() -> object:
        await turn()
        return asyncio.current_task()

    assert await isolated(work()) is asyncio.current_task()


async def test_an_exception_of_the_work_is_raised() -> None:
    async def work() -> None:
        await turn()
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        await isolated(work())


async def test_a_future_that_fails_is_raised_inside() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, ValueError("inside"))

    async def work() -> str:
        try:
            await future
        except ValueError as error:
            return f"caught {error}"
        return "not raised"

    assert await isolated(work()) == "caught inside"


async def test_a_cancellation_is_raised_inside_and_may_be_used_up() -> None:
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            variable.set("cancelled")
            await turn()
            return variable.get()
        return "not cancelled"

    async def outer() -> str:
        return str(await isolated(work()))

    task = asyncio.create_task(outer())
    await turn()
    task.cancel()
    assert await task == "cancelled"


async def test_a_coroutine_that_is_never_finished_is_closed() -> None:
    closed = False

    async def work() -> None:
        nonlocal closed
        try:
            await turn()
        finally:
            closed = True

    steps = isolated(work())
    next(steps)
    steps.close()
    assert closed
