"""Tasks of an app in child processes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.process.programs.child_tasks import Picture, add, app, forget, shrink, tripled, wait

from rota import Rota
from rota.clock.system import SystemClock
from rota.errors import JobFailedError, TaskDeclarationError
from rota.stores.memory import MemoryStore

pytestmark = pytest.mark.process

LONG = "60s"


@asynccontextmanager
async def working() -> AsyncIterator[None]:
    async with app.opened(MemoryStore(), SystemClock()):
        worker = app.worker()
        run = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await run


async def test_arguments_and_results_are_those_of_the_signature() -> None:
    async with working():
        job = await shrink.enqueue(Picture("cat", 640), by=4)
        result = await job.result(timeout=LONG)
    assert result["cat"] == 160
    assert result["pid"] != os.getpid()


async def test_outputs_of_other_jobs_reach_the_child() -> None:
    async with working():
        first = await add.enqueue([1, 2])
        second = await add.enqueue([10], more=first.output)
        assert await second.result(timeout=LONG) == 13


async def test_an_error_in_the_child_is_that_of_the_job() -> None:
    async with working():
        job = await shrink.enqueue(Picture("cat", 640), by=0)
        with pytest.raises(JobFailedError) as failed:
            await job.result(timeout=LONG)
    assert "ZeroDivisionError" in failed.value.error
    assert failed.value.traceback is not None
    assert "in shrink" in failed.value.traceback


async def test_a_context_a_snooze_and_a_result_that_is_not_kept() -> None:
    async with working():
        assert await (await forget.enqueue()).result(timeout=LONG) is None
        assert await (await wait.enqueue(2)).result(timeout=LONG) == "done"


async def test_a_function_under_another_name_is_found() -> None:
    async with working():
        assert await (await tripled.enqueue(4)).result(timeout=LONG) == 12


def test_a_lambda_is_refused_where_it_is_declared() -> None:
    with pytest.raises(TaskDeclarationError, match="it is a lambda") as refused:
        Rota("memory://").task(run_in="process")(lambda: None)
    assert "test_child_tasks.py:" in refused.value.location
