"""The host's clock set right by the store's."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import CorrectedClock, VirtualClock, system
from rota.clock.corrected import (
    LARGEST_SLOWED,
    LOOKED_EVERY,
    MEASURED_EVERY,
    Reading,
    Timeline,
    choose_reading,
    decide_timeline,
)
from rota.errors import ClockUseError, InvalidInputError, StoreUnavailableError

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)

offsets = st.floats(-7200, 7200, allow_nan=False)
round_trips = st.floats(0, 30, allow_nan=False)
shares = st.floats(0, 1, allow_nan=False)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def looked_at(truth: float, asked: float, round_trip: float, share: float = 0.5) -> Reading:
    """A look at a clock that is ``truth`` seconds ahead of elapsed time since the start."""
    return Reading(at(asked + share * round_trip + truth), asked, asked + round_trip)


class World:
    """True time flows; the store shows it, a host shows what it was set to."""

    def __init__(self, host_ahead: timedelta = timedelta(0)) -> None:
        self.time = VirtualClock(START)
        self.host_ahead = host_ahead
        self.store_ahead = timedelta(0)
        self.answers_in: Iterator[timedelta] = repeat(timedelta(0))
        self.is_down = False
        self.read_count = 0
        self.told: list[timedelta] = []
        self.clock = CorrectedClock(
            self, self.read_store_clock, elapsed=self.elapsed, on_offset=self.told.append
        )

    def now(self) -> datetime:
        return self.time.now() + self.host_ahead

    async def sleep(self, duration: timedelta) -> None:
        await self.time.sleep(duration)

    async def sleep_until(self, instant: datetime) -> None:
        raise AssertionError(f"the host's clock cannot say when it is {instant}")

    def elapsed(self) -> float:
        return 5000 + (self.time.now() - START).total_seconds()

    async def read_store_clock(self) -> datetime:
        """Half of the way is the way there."""
        self.read_count += 1
        if self.is_down:
            raise StoreUnavailableError("down")
        one_way = next(self.answers_in) / 2
        await self.time.sleep(one_way)
        shown = self.time.now() + self.store_ahead
        await self.time.sleep(one_way)
        return shown

    @property
    def error(self) -> timedelta:
        """What the corrected clock shows more than the store's."""
        return self.clock.now() - self.time.now() - self.store_ahead


@given(
    readings=st.lists(st.tuples(offsets, offsets, round_trips), min_size=1).map(
        lambda rows: [Reading(at(shown), asked, asked + trip) for shown, asked, trip in rows]
    )
)
def test_the_reading_with_the_shortest_round_trip_is_chosen(readings: list[Reading]) -> None:
    chosen = choose_reading(readings)
    assert chosen in readings
    assert all(chosen.round_trip <= other.round_trip for other in readings)


@given(truth=offsets, asked=offsets, round_trip=round_trips, share=shares, later=round_trips)
def test_a_first_measurement_is_wrong_by_half_the_round_trip_at_most(
    truth: float, asked: float, round_trip: float, share: float, later: float
) -> None:
    reading = looked_at(truth, asked, round_trip, share)
    elapsed = asked + round_trip + later
    shown = decide_timeline(None, reading, elapsed).show(elapsed)
    error = abs((shown - at(elapsed + truth)).total_seconds())
    assert error <= round_trip / 2 + 1e-5


@given(
    believed=offsets, ahead_by=st.floats(0, 5), truth=offsets, round_trip=round_trips, share=shares
)
def test_afterwards_the_time_is_right_or_on_its_way(
    believed: float, ahead_by: float, truth: float, round_trip: float, share: float
) -> None:
    """However wrong it was before and however slow the answer."""
    current = Timeline(0.0, at(believed), ahead_by)
    decided = decide_timeline(current, looked_at(truth, 10.0, round_trip, share), 10 + round_trip)
    eventually = 10 + round_trip + 2 * LARGEST_SLOWED.total_seconds()
    error = abs((decided.show(eventually) - at(eventually + truth)).total_seconds())
    # What agreed within the round trip may still have had some way to go.
    assert error <= round_trip + (ahead_by if decided is current else 0) + 1e-5


@given(believed=offsets, ahead_by=st.floats(0, 5), truth=offsets, round_trip=round_trips)
def test_a_correction_never_goes_back_unless_the_store_went_far_back(
    believed: float, ahead_by: float, truth: float, round_trip: float
) -> None:
    current = Timeline(0.0, at(believed), ahead_by)
    elapsed = 10 + round_trip
    reading = looked_at(truth, 10.0, round_trip)
    shown = decide_timeline(current, reading, elapsed).show(elapsed)
    went_back = current.show(elapsed) - shown
    assert went_back <= timedelta(0) or went_back > LARGEST_SLOWED


@given(
    ahead_by=st.floats(0, 3600),
    moments=st.lists(st.floats(0, 20_000), min_size=2).map(sorted),
)
def test_a_timeline_never_goes_back_nor_faster_than_time(
    ahead_by: float, moments: list[float]
) -> None:
    timeline = Timeline(0.0, START, ahead_by)
    for earlier, later in pairwise(moments):
        passed = (timeline.show(later) - timeline.show(earlier)).total_seconds()
        assert -1e-6 <= passed <= later - earlier + 2e-6


def test_a_time_that_is_ahead_goes_at_half_the_speed_until_it_is_right() -> None:
    timeline = Timeline(100.0, START, ahead_by=2.0)
    shown = [(timeline.show(100 + passed) - START) / SECOND for passed in (0, 1, 4, 5, 10)]
    assert shown == [0, 0.5, 2, 3, 8]


def test_a_slow_answer_within_its_uncertainty_changes_nothing() -> None:
    current = Timeline(0.0, START)
    assert decide_timeline(current, looked_at(0.9, 10.0, 2.0), 12.0) is current
    assert decide_timeline(current, looked_at(1.1, 10.0, 2.0), 12.0) == Timeline(12.0, at(13.1))


async def test_before_it_is_measured_the_host_is_believed() -> None:
    world = World(host_ahead=HOUR)
    assert world.clock.now() == START + HOUR
    assert world.clock.offset == timedelta(0)


@pytest.mark.parametrize("ahead", [10 * timedelta(minutes=1), -10 * timedelta(minutes=1)])
async def test_a_host_whose_clock_is_wrong_shows_the_time_of_the_store(ahead: timedelta) -> None:
    """Fault 13: skewed by ten minutes, and everybody is told."""
    world = World(host_ahead=ahead)
    assert await world.time.run(world.clock.measure()) == -ahead
    assert world.clock.now() == START
    assert world.clock.offset == -ahead
    assert world.told == [-ahead]


async def test_the_round_trip_is_halved_and_the_quickest_of_three_counts() -> None:
    world = World(host_ahead=HOUR)
    world.answers_in = iter([9 * SECOND, 2 * SECOND, 4 * SECOND])
    await world.time.run(world.clock.measure())
    assert world.read_count == 3
    assert world.error == timedelta(0)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_host_that_is_set_by_an_hour_changes_nothing_and_is_noticed(
    jump: timedelta,
) -> None:
    """Faults 11 and 12: leases and waits do not move; the offset is measured again."""
    world = World()
    async with world.clock as clock:
        waiting = asyncio.create_task(clock.sleep_until(START + 30 * SECOND))
        await world.time.advance(10 * SECOND)
        world.host_ahead = jump
        assert clock.now() == START + 10 * SECOND
        await world.time.advance(LOOKED_EVERY)
        assert world.read_count == 6
        assert (world.told, clock.offset) == ([-jump], -jump)
        await world.time.advance_to(START + 30 * SECOND)
        assert waiting.done()
        assert clock.now() == START + 30 * SECOND


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_duration_does_not_change_with_a_correction(jump: timedelta) -> None:
    world = World()
    async with world.clock as clock:
        waiting = asyncio.create_task(clock.sleep(10 * SECOND))
        await world.time.advance(SECOND)
        world.store_ahead = jump
        await world.time.run(clock.measure())
        await world.time.advance(9 * SECOND - timedelta(microseconds=1))
        assert not waiting.done()
        await world.time.advance(timedelta(microseconds=1))
        assert waiting.done()


async def test_it_is_measured_every_few_minutes() -> None:
    world = World()
    async with world.clock:
        await world.time.advance(MEASURED_EVERY - LOOKED_EVERY)
        assert world.read_count == 3
        world.store_ahead = SECOND
        await world.time.advance(LOOKED_EVERY)
        assert world.read_count == 6
        assert world.error == timedelta(0)
    await world.time.advance(2 * MEASURED_EVERY)
    assert world.read_count == 6
    assert world.time.sleeper_count == 0


async def test_a_little_too_late_is_made_good_without_going_back() -> None:
    world = World()
    async with world.clock as clock:
        await world.time.advance(SECOND)
        before = clock.now()
        world.store_ahead = -2 * SECOND
        await world.time.run(clock.measure())
        assert clock.now() == before
        reached = asyncio.create_task(clock.sleep_until(before + SECOND))
        await world.time.advance(2 * SECOND - timedelta(microseconds=5))
        assert not reached.done()
        await world.time.advance(timedelta(microseconds=10))
        assert reached.done()
        await world.time.advance(3 * SECOND)
        assert world.error == timedelta(0)


async def test_a_store_that_went_an_hour_back_is_followed_at_once() -> None:
    world = World()
    async with world.clock as clock:
        world.store_ahead = -HOUR
        await world.time.run(clock.measure())
        assert clock.now() == START - HOUR
        waiting = asyncio.create_task(clock.sleep_until(START))
        await world.time.advance(HOUR - SECOND)
        assert not waiting.done()
        await world.time.advance(SECOND)
        assert waiting.done()


async def test_a_store_that_went_forward_ends_a_wait_within_two_seconds() -> None:
    world = World()
    async with world.clock as clock:
        waiting = asyncio.create_task(clock.sleep_until(START + HOUR))
        await world.time.advance(SECOND)
        world.store_ahead = HOUR
        await world.time.run(clock.measure())
        await world.time.advance(2 * SECOND)
        assert waiting.done()


async def test_a_store_that_does_not_answer_leaves_the_time_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(host_ahead=HOUR)
    async with world.clock as clock:
        world.is_down = True
        await world.time.advance(MEASURED_EVERY + 5 * LOOKED_EVERY)
        assert world.error == timedelta(0)
        assert [record.getMessage() for record in caplog.records] == [
            "The clock of the store cannot be read: down"
        ]
        with pytest.raises(StoreUnavailableError):
            await clock.measure()
        world.is_down, world.store_ahead = False, SECOND
        await world.time.advance(LOOKED_EVERY)
        assert world.error == timedelta(0)


async def test_a_store_that_is_down_at_the_start_is_an_error() -> None:
    world = World()
    world.is_down = True
    with pytest.raises(StoreUnavailableError):
        await world.clock.__aenter__()
    assert world.time.sleeper_count == 0


async def test_an_alarm_is_raised_once_and_cleared() -> None:
    world = World(host_ahead=HOUR)
    heard: list[int] = []
    for ahead in (HOUR, HOUR + SECOND, 2 * HOUR, timedelta(0), SECOND):
        world.host_ahead = ahead
        await world.time.run(world.clock.measure())
        heard.append(len(world.told))
    assert heard == [1, 1, 2, 3, 3]
    assert world.told == [-HOUR, -2 * HOUR, timedelta(0)]


@pytest.mark.parametrize(
    ("ahead", "level", "words"),
    [
        (timedelta(seconds=-7), logging.WARNING, "7.0 s behind that of the store"),
        (timedelta(seconds=7), logging.WARNING, "7.0 s ahead of that of the store"),
    ],
)
async def test_the_log_says_how_wrong_the_host_is(
    ahead: timedelta, level: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rota.clock")
    world = World(host_ahead=ahead)
    clock = CorrectedClock(world, world.read_store_clock, elapsed=world.elapsed)
    await world.time.run(clock.measure())
    world.host_ahead = timedelta(0)
    await world.time.run(clock.measure())
    alarm, relief = caplog.records
    assert (alarm.levelno, relief.levelno) == (level, logging.INFO)
    assert words in alarm.getMessage()
    assert "agrees" in relief.getMessage()


async def test_a_sleep_until_the_past_yields_once() -> None:
    world = World()
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "others")
    await world.clock.sleep_until(START)
    order.append("sleeper")
    assert order == ["others", "sleeper"]


async def test_a_naive_instant_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        await World().clock.sleep_until(datetime(2026, 1, 1))  # noqa: DTZ001 - naive on purpose


async def test_a_store_without_a_clock_is_refused() -> None:
    async def read_nothing() -> None:
        return None

    with pytest.raises(ClockUseError, match="no clock of its own"):
        await CorrectedClock(system.SystemClock(), read_nothing).measure()


async def test_on_a_real_host_it_shows_the_time_of_the_store() -> None:
    host = system.SystemClock()

    async def read_store_clock() -> datetime:
        return host.now() + HOUR

    async with CorrectedClock(host, read_store_clock, on_offset=repr) as clock:
        began = clock.now()
        assert abs(began - host.now() - HOUR) < 5 * SECOND
        await clock.sleep_until(began + timedelta(milliseconds=20))
        assert clock.now() >= began + timedelta(milliseconds=20)


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    world = World()
    async with world.clock as clock:
        task = asyncio.create_task(clock.sleep_until(START + HOUR))
        await world.time.advance(SECOND)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert world.time.sleeper_count == 0
