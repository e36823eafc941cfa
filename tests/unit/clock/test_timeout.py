import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from rota.clock import SystemClock, Timeout, VirtualClock, timeout_after, timeout_at
from rota.clock.loop import turn
from rota.errors import ClockUseError, InvalidInputError

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def test_work_that_takes_too_long_ends_in_a_timeout_error(clock: VirtualClock) -> None:
    async def slow() -> Timeout:
        async with timeout_after(clock, HOUR) as timeout:
            with pytest.raises(asyncio.CancelledError) as caught:
                await clock.sleep(2 * HOUR)
            raise caught.value
        return timeout

    with pytest.raises(TimeoutError):
        await clock.run(slow())
    assert (clock.now(), clock.sleeper_count) == (START + HOUR, 0)


async def test_work_that_ends_in_time_is_left_alone(clock: VirtualClock) -> None:
    async def quick() -> Timeout:
        async with timeout_at(clock, START + 2 * HOUR) as timeout:
            await clock.sleep(HOUR)
        await clock.sleep(5 * HOUR)
        return timeout

    timeout = await clock.run(quick())
    assert not timeout.expired()
    assert timeout.when() == START + 2 * HOUR
    assert clock.sleeper_count == 0


async def test_a_timeout_that_expired_says_so(clock: VirtualClock) -> None:
    timeout = timeout_after(clock, HOUR)

    async def slow() -> None:
        async with timeout:
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await clock.run(slow())
    assert timeout.expired()
    with pytest.raises(ClockUseError, match="only be rescheduled while its block runs"):
        timeout.reschedule(None)


@pytest.mark.parametrize("without", [timeout_at, timeout_after])
async def test_no_deadline_never_expires(
    clock: VirtualClock, without: Callable[[VirtualClock, None], Timeout]
) -> None:
    async def long() -> None:
        async with without(clock, None) as timeout:
            assert timeout.when() is None
            await clock.sleep(10_000 * HOUR)

    await clock.run(long())
    assert clock.now() == START + 10_000 * HOUR


@pytest.mark.parametrize("late", [timedelta(0), -HOUR])
async def test_a_deadline_that_has_passed_expires_at_the_first_wait(
    clock: VirtualClock, late: timedelta
) -> None:
    steps = []

    async def work() -> None:
        async with timeout_after(clock, late):
            steps.append("before")
            await turn()
            steps.append("after")

    with pytest.raises(TimeoutError):
        await work()
    assert (steps, clock.now()) == (["before"], START)


async def test_the_inner_of_two_expires_without_the_outer(clock: VirtualClock) -> None:
    async def nested() -> tuple[bool, bool]:
        async with timeout_after(clock, 3 * HOUR) as outer:
            with pytest.raises(TimeoutError):
                async with timeout_after(clock, HOUR) as inner:
                    await clock.sleep(10 * HOUR)
            await clock.sleep(HOUR)
        return outer.expired(), inner.expired()

    assert await clock.run(nested()) == (False, True)


async def test_the_outer_of_two_ends_the_inner_as_a_cancellation(clock: VirtualClock) -> None:
    async def nested() -> None:
        async with timeout_after(clock, HOUR):
            with pytest.raises(asyncio.CancelledError) as caught:
                async with timeout_after(clock, 3 * HOUR):
                    await clock.sleep(10 * HOUR)
            raise caught.value

    with pytest.raises(TimeoutError):
        await clock.run(nested())


async def test_two_of_one_instant_end_in_one_timeout_error_outside(clock: VirtualClock) -> None:
    seen: list[str] = []

    async def nested() -> None:
        async with timeout_at(clock, START + HOUR):
            try:
                async with timeout_at(clock, START + HOUR):
                    await clock.sleep(10 * HOUR)
            except BaseException as error:
                seen.append(type(error).__name__)
                raise

    with pytest.raises(TimeoutError):
        await clock.run(nested())
    assert seen == ["CancelledError"]


async def test_a_cancellation_from_outside_stays_one(clock: VirtualClock) -> None:
    async def slow() -> None:
        async with timeout_after(clock, HOUR):
            await clock.sleep(10 * HOUR)

    task = asyncio.create_task(slow())
    await clock.advance(HOUR / 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.sleeper_count == 0


async def test_a_cancellation_in_the_same_moment_wins(clock: VirtualClock) -> None:
    async def slow() -> None:
        async with timeout_after(clock, HOUR):
            await clock.sleep(10 * HOUR)

    async def cancel() -> None:
        await clock.sleep(HOUR)
        task.cancel()

    task = asyncio.create_task(slow())
    canceller = asyncio.create_task(cancel())
    await clock.advance(HOUR)
    assert canceller.done()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_another_error_in_an_expired_block_is_kept(clock: VirtualClock) -> None:
    async def slow() -> None:
        async with timeout_after(clock, HOUR):
            try:
                await clock.sleep(10 * HOUR)
            finally:
                raise KeyError("x")

    with pytest.raises(KeyError):
        await clock.run(slow())


@pytest.mark.parametrize(("first", "second", "expires"), [(1, 5, False), (5, 1, True)])
async def test_a_deadline_can_be_moved(
    clock: VirtualClock, first: int, second: int, expires: bool
) -> None:
    timeout = timeout_after(clock, first * HOUR)

    async def work() -> None:
        async with timeout:
            timeout.reschedule(START + second * HOUR)
            assert timeout.when() == START + second * HOUR
            await clock.sleep(3 * HOUR)

    result = (await asyncio.gather(clock.run(work()), return_exceptions=True))[0]
    assert isinstance(result, TimeoutError) == timeout.expired() == expires


async def test_a_deadline_can_be_taken_away_and_given_back(clock: VirtualClock) -> None:
    async def work() -> None:
        async with timeout_after(clock, HOUR) as timeout:
            timeout.reschedule(None)
            await clock.sleep(5 * HOUR)
            timeout.reschedule(START + 6 * HOUR)
            await clock.sleep(5 * HOUR)

    with pytest.raises(TimeoutError):
        await clock.run(work())
    assert clock.now() == START + 6 * HOUR


async def test_a_deadline_moved_at_its_very_instant_has_been_moved(clock: VirtualClock) -> None:
    async def work() -> bool:
        async with timeout_after(clock, 2 * HOUR) as timeout:
            await clock.sleep(HOUR)
            await clock.sleep(HOUR)  # set after the deadline's own timer, so it wakes after it
            timeout.reschedule(START + 9 * HOUR)
            await clock.sleep(HOUR)
        return timeout.expired()

    assert not await clock.run(work())
    assert clock.now() == START + 3 * HOUR


async def test_a_duration_is_not_changed_by_a_clock_that_is_set_back(clock: VirtualClock) -> None:
    async def wait(deadline: Timeout) -> None:
        async with deadline:
            await asyncio.Event().wait()

    lasting = asyncio.create_task(wait(timeout_after(clock, HOUR)))
    until = asyncio.create_task(wait(timeout_at(clock, START + HOUR)))
    await clock.jump_to(START - 10 * HOUR)
    await clock.advance(HOUR)
    assert (lasting.done(), until.done()) == (True, False)
    assert isinstance(lasting.exception(), TimeoutError)
    until.cancel()


async def test_it_works_by_the_system_clock() -> None:
    clock = SystemClock()
    with pytest.raises(TimeoutError):
        async with timeout_after(clock, timedelta(milliseconds=2)):
            await asyncio.Event().wait()
    async with timeout_at(clock, clock.now() + HOUR) as timeout:
        await turn()
    assert not timeout.expired()


async def test_a_clock_that_fails_ends_the_block_with_its_error(clock: VirtualClock) -> None:
    class Broken(VirtualClock):
        async def sleep_until(self, instant: datetime) -> None:
            raise OSError(f"no time for {instant}")

    with pytest.raises(OSError, match="no time for 2026"):
        async with timeout_at(Broken(START), START + HOUR):
            await asyncio.Event().wait()
    assert clock.now() == START


async def test_misuse_is_refused(clock: VirtualClock) -> None:
    timeout = timeout_after(clock, HOUR)
    with pytest.raises(ClockUseError, match="while its block runs"):
        timeout.reschedule(None)
    async with timeout:
        with pytest.raises(ClockUseError, match="only be entered once"):
            await timeout.__aenter__()
        with pytest.raises(InvalidInputError, match="when must be an aware datetime"):
            timeout.reschedule(datetime(2026, 1, 1))  # noqa: DTZ001 - naive on purpose
    with pytest.raises(ClockUseError, match="while its block runs"):
        timeout.reschedule(None)
    with pytest.raises(InvalidInputError, match="duration must be a timedelta"):
        timeout_after(clock, 5)  # type: ignore[arg-type]  # wrong on purpose


async def test_it_needs_a_task_to_cancel(clock: VirtualClock) -> None:
    refused: list[BaseException] = []

    def callback() -> None:
        try:
            timeout_after(clock, HOUR).__aenter__().send(None)
        except ClockUseError as error:
            refused.append(error)

    asyncio.get_running_loop().call_soon(callback)
    await turn()
    assert "needs a task" in str(refused[0])
