"""Plain functions in threads that are kept."""

import asyncio
import threading
from contextvars import ContextVar

import pytest

from rota.worker.threads import Threads

variable = ContextVar("variable", default="unset")


async def test_results_come_back_and_threads_are_used_again() -> None:
    threads = Threads()
    idents = {await threads.call(lambda _: threading.get_ident(), None) for _ in range(5)}
    assert len(idents) == 1
    assert threading.get_ident() not in idents
    threads.close()


async def test_calls_at_the_same_time_each_have_a_thread() -> None:
    threads, barrier = Threads(), threading.Barrier(3, timeout=10)
    await asyncio.gather(*(threads.call(lambda _: barrier.wait(), None) for _ in range(3)))
    threads.close()


async def test_context_variables_are_those_of_the_caller() -> None:
    threads = Threads()
    variable.set("mine")
    assert await threads.call(lambda _: variable.get(), None) == "mine"
    threads.close()


@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(1)])
async def test_exceptions_are_raised_where_they_are_awaited(error: BaseException) -> None:
    threads = Threads()

    def fail(_: object) -> None:
        raise error

    with pytest.raises(type(error)):
        await threads.call(fail, None)
    assert await threads.call(lambda it: it, 7) == 7
    threads.close()


async def test_a_stop_iteration_does_not_get_lost() -> None:
    threads = Threads()
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.call(next, iter(()))
    threads.close()


async def test_threads_end_when_they_are_let_go() -> None:
    threads, release = Threads(), threading.Event()
    found = [await threads.call(lambda _: threading.current_thread(), None)]
    busy = threads.call(lambda _: (release.wait(10), threading.current_thread())[1], None)
    threads.close()
    release.set()
    found.append(await busy)
    for thread in found:
        thread.join(10)
    assert not any(thread.is_alive() for thread in found)


async def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    threads = Threads()
    assert await threads.call(lambda _: threading.current_thread().daemon, None)
    threads.close()
