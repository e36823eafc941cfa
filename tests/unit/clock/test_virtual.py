import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from rota.clock import VirtualClock, in_flight, virtual
from rota.clock.loop import turn
from rota.errors import BusyLoopError, ClockUseError, DeadlockError, InvalidInputError

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
Log = list[tuple[str, timedelta]]


def sleeper(clock: VirtualClock, log: Log, name: str, hours: float) -> "asyncio.Task[None]":
    async def sleep() -> None:
        await clock.sleep_until(START + hours * HOUR)
        log.append((name, clock.now() - START))

    return asyncio.create_task(sleep(), name=name)


def at(name: str, hours: float) -> tuple[str, timedelta]:
    return (name, hours * HOUR)


async def test_time_stands_still_until_it_is_moved(clock: VirtualClock) -> None:
    for _ in range(100):
        await turn()
    assert clock.now() == START
    await clock.advance(HOUR)
    assert clock.now() == START + HOUR


async def test_every_timer_fires_at_its_own_instant_and_in_order(clock: VirtualClock) -> None:
    log: Log = []
    for name, hours in (("c", 3), ("a", 1), ("late", 5), ("b", 2)):
        sleeper(clock, log, name, hours)
    await clock.advance(4 * HOUR)
    assert log == [at("a", 1), at("b", 2), at("c", 3)]
    assert clock.next_timer_at == START + 5 * HOUR
    await clock.advance_to(START + 5 * HOUR)
    assert log[-1] == at("late", 5)


async def test_timers_of_one_instant_fire_in_the_order_they_were_set(clock: VirtualClock) -> None:
    log: Log = []
    names = [str(number) for number in range(50)]
    for name in names:
        sleeper(clock, log, name, 1)
    await clock.advance(HOUR)
    assert [name for name, _ in log] == names


async def test_timers_set_by_woken_code_fire_within_the_same_advance(clock: VirtualClock) -> None:
    seen: list[datetime] = []

    async def tick() -> None:
        while True:
            await clock.sleep(timedelta(minutes=20))
            seen.append(clock.now())

    task = asyncio.create_task(tick())
    await clock.advance(HOUR)
    assert seen == [START + timedelta(minutes=20 * count) for count in (1, 2, 3)]
    task.cancel()


async def test_woken_code_runs_to_its_next_wait_before_time_moves(clock: VirtualClock) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()
    arrivals: list[datetime] = []

    async def produce() -> None:
        await clock.sleep(HOUR)
        for number in range(100):
            await queue.put(number)
            await turn()

    async def consume() -> None:
        for _ in range(100):
            await queue.get()
            arrivals.append(clock.now())

    sleeper(clock, [], "other", 1.000_001)
    tasks = [asyncio.create_task(produce()), asyncio.create_task(consume())]
    await clock.advance(2 * HOUR)
    await asyncio.gather(*tasks)
    assert set(arrivals) == {START + HOUR}


async def test_an_instant_not_in_the_future_yields_once(clock: VirtualClock) -> None:
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "other")
    await clock.sleep_until(START)
    order.append("self")
    await clock.sleep(-HOUR)
    assert order == ["other", "self"]
    assert clock.sleeper_count == 0


async def test_a_cancelled_sleeper_leaves_no_timer_behind(clock: VirtualClock) -> None:
    task = sleeper(clock, [], "cancelled", 1)
    await clock.advance(timedelta(0))
    assert (clock.sleeper_count, clock.next_timer_at) == (1, START + HOUR)
    task.cancel()
    await turn()
    assert (clock.sleeper_count, clock.next_timer_at) == (0, None)
    await clock.advance(2 * HOUR)
    assert task.cancelled()


async def test_a_sleeper_cancelled_as_it_wakes_is_counted_once(clock: VirtualClock) -> None:
    victim: list[asyncio.Task[None]] = []

    async def cancel() -> None:
        await clock.sleep(HOUR)
        victim[0].cancel()

    canceller = asyncio.create_task(cancel())
    await turn()
    victim.append(sleeper(clock, [], "victim", 1))
    await clock.advance(HOUR)
    assert (canceller.done(), victim[0].cancelled(), clock.sleeper_count) == (True, True, 0)


async def test_it_works_with_locks_conditions_groups_and_gather(clock: VirtualClock) -> None:
    lock, condition, log = asyncio.Lock(), asyncio.Condition(), []

    async def exclusive(name: str) -> str:
        async with lock:
            await clock.sleep(HOUR)
            log.append((name, (clock.now() - START) // HOUR))
        async with condition:
            condition.notify_all()
        return name

    async def watch() -> None:
        async with condition:
            await condition.wait_for(lambda: len(log) == 3)

    async def main() -> list[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(watch())
            names = group.create_task(gathered())
        return names.result()

    async def gathered() -> list[str]:
        return list(await asyncio.gather(*(exclusive(name) for name in "abc")))

    assert await clock.run(main()) == ["a", "b", "c"]
    assert log == [("a", 1), ("b", 2), ("c", 3)]


async def test_after_a_jump_forward_all_that_is_overdue_fires_at_the_new_time(
    clock: VirtualClock,
) -> None:
    log: Log = []
    for name, hours in (("b", 2), ("later", 9), ("a", 1)):
        sleeper(clock, log, name, hours)
    await clock.jump_to(START + 5 * HOUR)
    assert log == [at("a", 5), at("b", 5)]


async def test_a_duration_has_passed_when_the_host_slept_for_it(clock: VirtualClock) -> None:
    task = asyncio.create_task(clock.sleep(HOUR))
    await clock.jump_to(START + 2 * HOUR)
    assert task.done()


async def test_after_a_jump_back_an_instant_is_waited_for_until_it_shows(
    clock: VirtualClock,
) -> None:
    log: Log = []
    sleeper(clock, log, "a", 2)
    await clock.advance(HOUR)
    await clock.jump_to(START - HOUR)
    assert clock.now() == START - HOUR
    await clock.advance(2 * HOUR)
    assert log == []
    await clock.advance(HOUR)
    assert log == [at("a", 2)]


async def test_after_a_jump_back_a_duration_is_as_long_as_before(clock: VirtualClock) -> None:
    task = asyncio.create_task(clock.sleep(2 * HOUR))
    await clock.advance(HOUR)
    await clock.jump_to(START - 10 * HOUR)
    await clock.advance(HOUR - timedelta(microseconds=1))
    assert not task.done()
    await clock.advance(timedelta(microseconds=1))
    assert task.done()


async def test_run_moves_time_as_needed_and_returns_the_result(clock: VirtualClock) -> None:
    async def work() -> str:
        await clock.sleep(1000 * HOUR)
        return "done"

    assert await clock.run(work()) == "done"
    assert clock.now() == START + 1000 * HOUR


async def test_run_raises_what_its_awaitable_raises(clock: VirtualClock) -> None:
    async def fail() -> None:
        await clock.sleep(HOUR)
        raise KeyError("x")

    with pytest.raises(KeyError):
        await clock.run(fail())


async def test_run_reports_a_deadlock_with_the_line_of_each_task(clock: VirtualClock) -> None:
    first, second, cleaned_up = asyncio.Lock(), asyncio.Lock(), []

    async def cross(mine: asyncio.Lock, other: asyncio.Lock) -> None:
        async with mine:
            await clock.sleep(HOUR)
            try:
                await other.acquire()  # here
            finally:
                cleaned_up.append(clock.now())

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(cross(first, second), name="left")
            group.create_task(cross(second, first), name="right")

    with pytest.raises(DeadlockError, match="no timer is set") as caught:
        await clock.run(main())
    assert [line.split()[0] for line in caught.value.tasks if "# here" in line] == ["left", "right"]
    assert caught.value.now == START + HOUR
    assert cleaned_up == [START + HOUR] * 2
    assert str(caught.value).count("await other.acquire()  # here") == 2


async def test_a_deadlock_is_reported_even_when_the_task_will_not_end(clock: VirtualClock) -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    with pytest.raises(DeadlockError):
        await clock.run(stubborn())


async def test_a_deadlock_is_what_is_raised_when_cleaning_up_fails(clock: VirtualClock) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await clock.sleep(HOUR)
            raise KeyError("x")

    with pytest.raises(DeadlockError):
        await clock.run(work())
    assert clock.now() == START + HOUR


async def test_cancelling_run_cancels_what_it_runs(clock: VirtualClock) -> None:
    ends: list[str] = []
    reached = asyncio.Event()

    async def work() -> None:
        try:
            await clock.sleep(HOUR)
            with in_flight():
                reached.set()
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    task = asyncio.create_task(clock.run(work()))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["cancelled"]


async def test_time_waits_for_work_in_flight(clock: VirtualClock) -> None:
    landing, seen = threading.Event(), []

    async def work() -> None:
        with in_flight():
            await asyncio.to_thread(landing.wait, 10)
        seen.append(clock.now())

    asyncio.create_task(work())  # noqa: RUF006 - it ends within the test
    moving = asyncio.create_task(clock.advance(HOUR))
    for _ in range(50):
        await turn()
    assert (clock.now(), moving.done()) == (START, False)
    landing.set()
    await moving
    assert seen == [START]


async def test_a_loop_that_never_rests_is_an_error(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual, "TURN_LIMIT", 500)

    async def spin() -> None:
        while True:
            await turn()  # spinning

    task = asyncio.create_task(spin(), name="spinner")
    with pytest.raises(BusyLoopError, match="within 500 turns") as caught:
        await clock.advance(HOUR)
    task.cancel()
    assert any("spinner" in line and "# spinning" in line for line in caught.value.tasks)
    assert (caught.value.turn_count, caught.value.now) == (500, START)


Move = Callable[[VirtualClock], Awaitable[object]]
MOVES: dict[str, Move] = {
    "advance": lambda clock: clock.advance(HOUR),
    "jump_to": lambda clock: clock.jump_to(START),
    "run": lambda clock: clock.run(clock.sleep(HOUR)),
}


@pytest.mark.parametrize("verb", MOVES)
async def test_a_woken_task_may_not_move_the_time(clock: VirtualClock, verb: str) -> None:
    async def woken() -> None:
        await clock.sleep(HOUR)
        await MOVES[verb](clock)

    task = asyncio.create_task(woken())
    await clock.advance(2 * HOUR)
    with pytest.raises(ClockUseError, match=rf"{verb}\(\) was called while .* is moving the time"):
        await task
    assert clock.now() == START + 2 * HOUR


async def test_two_drivers_at_once_are_refused(clock: VirtualClock) -> None:
    results = await asyncio.gather(
        clock.advance(HOUR), clock.advance(2 * HOUR), return_exceptions=True
    )
    assert results[0] is None
    assert isinstance(results[1], ClockUseError)
    assert clock.now() == START + HOUR


async def test_two_clocks_on_one_loop_are_refused(clock: VirtualClock) -> None:
    task = sleeper(clock, [], "waiting", 1)
    await turn()
    with pytest.raises(ClockUseError, match="already has a VirtualClock in use"):
        await VirtualClock(START).advance(HOUR)
    task.cancel()


async def test_an_unused_clock_makes_room_for_the_next(clock: VirtualClock) -> None:
    await clock.advance(HOUR)
    following = VirtualClock(START)
    await following.advance(2 * HOUR)
    await clock.advance(HOUR)
    assert (clock.now(), following.now()) == (START + 2 * HOUR, START + 2 * HOUR)


async def test_a_clock_that_gave_way_is_refused_while_the_next_is_in_use(
    clock: VirtualClock,
) -> None:
    await clock.advance(HOUR)
    following = VirtualClock(START)
    task = sleeper(following, [], "waiting", 1)
    await turn()
    with pytest.raises(ClockUseError, match="already has a VirtualClock in use"):
        await clock.sleep(HOUR)
    task.cancel()


async def test_a_clock_that_is_gone_makes_room_too() -> None:
    await VirtualClock(START).advance(HOUR)
    following = VirtualClock(START)
    await following.advance(HOUR)
    assert following.now() == START + HOUR


async def test_a_clock_of_another_loop_is_refused(clock: VirtualClock) -> None:
    await clock.advance(HOUR)

    def elsewhere() -> datetime:
        with pytest.raises(ClockUseError, match="belongs to another event loop"):
            asyncio.run(clock.sleep(HOUR))
        return clock.now()

    assert await asyncio.to_thread(elsewhere) == START + HOUR


async def test_bad_input_is_refused_and_moves_nothing(clock: VirtualClock) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - naive on purpose
    with pytest.raises(InvalidInputError, match="start must be an aware datetime"):
        VirtualClock(naive)
    for verb in (clock.sleep_until, clock.advance_to, clock.jump_to):
        with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
            await verb(naive)
    with pytest.raises(InvalidInputError, match=r"must not be negative.*jump_to"):
        await clock.advance(-HOUR)
    with pytest.raises(InvalidInputError, match=r"must not be in the past.*jump_to"):
        await clock.advance_to(START - HOUR)
    assert clock.now() == START


def test_a_virtual_clock_shows_its_time_and_waiters(clock: VirtualClock) -> None:
    assert repr(clock) == "<VirtualClock 2026-01-01T00:00:00+00:00, 0 waiting>"


def test_a_loop_that_hides_what_is_ready_is_driven_all_the_same(
    clock: VirtualClock, hiding_loop: asyncio.AbstractEventLoop
) -> None:
    seen: list[datetime] = []

    async def busy() -> None:
        for _ in range(5):
            await clock.sleep(HOUR)
            for _ in range(200):
                await turn()
            await asyncio.gather(asyncio.gather(turn_once()))
            seen.append(clock.now())

    async def turn_once() -> None:
        await turn()

    async def main() -> None:
        task = asyncio.create_task(busy())
        sleeper(clock, [], "other", 1.000_001)
        await clock.advance(3 * HOUR)
        await clock.run(task)

    hiding_loop.run_until_complete(main())
    assert seen == [START + count * HOUR for count in (1, 2, 3, 4, 5)]
