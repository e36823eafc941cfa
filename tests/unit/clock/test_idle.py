import asyncio

from rota.clock.loop import QUIET_TURNS, IdleProbe, is_runnable, ready_queue, turn


async def test_a_turn_lets_what_is_ready_run_once() -> None:
    steps: list[int] = []

    async def walk() -> None:
        for step in range(3):
            steps.append(step)
            await turn()

    task = asyncio.create_task(walk())
    await turn()
    assert steps == [0]
    await turn()
    assert steps == [0, 1]
    await task


async def test_the_standard_loop_shows_what_is_ready() -> None:
    loop = asyncio.get_running_loop()
    probe = IdleProbe(loop)
    assert probe.is_idle()
    loop.call_soon(list)
    assert not probe.is_idle()
    await turn()
    assert probe.is_idle()


def test_a_loop_that_hides_it_is_asked_by_its_tasks(
    hiding_loop: asyncio.AbstractEventLoop,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert ready_queue(loop) is None
        probe = IdleProbe(loop)
        task = asyncio.create_task(busy_for(50))
        turn_count = 0
        while not probe.is_idle():
            await turn()
            turn_count += 1
        assert task.done()
        assert turn_count > 50 + QUIET_TURNS

    hiding_loop.run_until_complete(main())


def test_short_silences_do_not_add_up_to_rest(hiding_loop: asyncio.AbstractEventLoop) -> None:
    async def main() -> None:
        probe = IdleProbe(asyncio.get_running_loop())
        task = asyncio.create_task(wait_for_callbacks(QUIET_TURNS // 2, times=5))
        while not probe.is_idle():
            await turn()
        assert task.done()

    hiding_loop.run_until_complete(main())


async def wait_for_callbacks(chain_length: int, *, times: int) -> None:
    """Wait for chains of bare callbacks, which a loop that hides them does not show."""
    loop = asyncio.get_running_loop()

    def pass_on(left: int, end: asyncio.Event) -> None:
        if left:
            loop.call_soon(pass_on, left - 1, end)
        else:
            end.set()

    for _ in range(times):
        end = asyncio.Event()
        pass_on(chain_length, end)
        await end.wait()


async def busy_for(turn_count: int) -> None:
    for _ in range(turn_count):
        await turn()


async def test_a_task_is_runnable_until_it_waits_and_again_once_woken() -> None:
    event = asyncio.Event()
    task = asyncio.create_task(event.wait())
    assert is_runnable(task)
    await turn()
    assert not is_runnable(task)
    event.set()
    assert is_runnable(task)
    await task
