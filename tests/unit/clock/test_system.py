import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rota.clock import SystemClock, system
from rota.errors import InvalidInputError

START = datetime(2026, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


class Host:
    """A host whose time and timers are made up: waiting moves both clocks, setting only one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.elapsed = START, 100.0
        self.waits: list[float] = []
        self.early = 0.0
        self.settings: dict[int, timedelta] = {}
        monkeypatch.setattr(asyncio, "sleep", self.wait)
        monkeypatch.setattr(system, "elapsed", lambda: self.elapsed)
        monkeypatch.setattr(SystemClock, "now", lambda _: self.wall)

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        passed = max(seconds - self.early, 0.000_001 if seconds else 0)
        self.elapsed += passed
        self.wall += timedelta(seconds=passed) + self.settings.get(len(self.waits), timedelta(0))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_now_is_in_utc_and_moves_on() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert first.tzinfo is UTC
    assert first <= second


def test_the_measuring_clocks_move_on() -> None:
    assert system.monotonic() <= system.monotonic()
    assert system.elapsed() <= system.elapsed()


async def test_a_wait_never_ends_before_its_instant() -> None:
    clock = SystemClock()
    for microseconds in (1, 50, 700, 1_300, 2_500):
        instant = clock.now() + timedelta(microseconds=microseconds)
        await clock.sleep_until(instant)
        assert clock.now() >= instant


async def test_a_wait_lasts_at_least_its_duration() -> None:
    began = system.monotonic()
    await SystemClock().sleep(3 * MILLISECOND)
    assert system.monotonic() - began >= 0.003


@pytest.mark.parametrize("ago", [timedelta(0), timedelta(hours=1)])
async def test_a_sleep_until_the_past_yields_once(ago: timedelta, host: Host) -> None:
    await SystemClock().sleep_until(START - ago)
    await SystemClock().sleep(-ago)
    assert host.waits == [0, 0]


async def test_a_long_wait_looks_at_the_clock_every_two_seconds(host: Host) -> None:
    await SystemClock().sleep_until(START + timedelta(seconds=5))
    assert host.waits == [2, 2, 1]


async def test_a_timer_that_fires_early_is_waited_for_again(host: Host) -> None:
    host.early = 0.000_4
    await SystemClock().sleep_until(START + MILLISECOND)
    assert host.wall >= START + MILLISECOND
    assert len(host.waits) > 1


async def test_a_clock_set_forward_is_noticed_within_seconds(host: Host) -> None:
    host.settings = {1: timedelta(hours=3)}
    await SystemClock().sleep_until(START + timedelta(hours=2))
    assert host.waits == [2]


async def test_a_clock_set_back_makes_an_instant_later(host: Host) -> None:
    host.settings = {1: timedelta(seconds=-10)}
    await SystemClock().sleep_until(START + timedelta(seconds=3))
    assert sum(host.waits) == 13


@pytest.mark.parametrize("change", [timedelta(hours=-1), timedelta(hours=1)])
async def test_a_duration_does_not_care_how_the_clock_is_set(change: timedelta, host: Host) -> None:
    host.settings = {1: change}
    await SystemClock().sleep(timedelta(seconds=5))
    assert host.waits == [2, 2, 1]


async def test_a_wait_can_be_cancelled() -> None:
    task = asyncio.create_task(SystemClock().sleep_until(datetime(2999, 1, 1, tzinfo=UTC)))
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_bad_input_is_refused_before_any_wait(host: Host) -> None:
    with pytest.raises(InvalidInputError, match="instant must be an aware datetime"):
        await SystemClock().sleep_until(datetime(2026, 1, 1))  # noqa: DTZ001 - naive on purpose
    with pytest.raises(InvalidInputError, match="duration must be a timedelta"):
        await SystemClock().sleep(1.5)  # type: ignore[arg-type]  # wrong on purpose
    assert host.waits == []
