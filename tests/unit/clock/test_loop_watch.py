import asyncio
import selectors
import sys
import threading
from datetime import timedelta

import pytest

from rota.clock import LoopWatch, Stall
from rota.clock.loop import _is_at_rest, _Lookout
from rota.errors import ClockUseError, InvalidInputError

LIMIT = timedelta(milliseconds=20)
PATIENCE = 30.0


class Reports:
    """Stalls as they are reported, and a way to wait for the next."""

    def __init__(self) -> None:
        self.began, self.ended = threading.Event(), threading.Event()
        self.stalls: list[Stall] = []

    def __call__(self, stall: Stall) -> None:
        self.stalls.append(stall)
        (self.ended if stall.is_over else self.began).set()


@pytest.fixture
def reports() -> Reports:
    return Reports()


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rota-loop-watch"]


async def test_a_task_that_blocks_the_loop_is_named_while_it_does(reports: Reports) -> None:
    async def block() -> None:
        assert reports.began.wait(PATIENCE)  # blocking

    with LoopWatch(reports, limit=LIMIT):
        await asyncio.create_task(block(), name="the culprit")
        assert await asyncio.to_thread(reports.ended.wait, PATIENCE)
    began, ended = reports.stalls
    assert (began.task_name, began.is_over) == ("the culprit", False)
    assert began.where.endswith("in block: assert reports.began.wait(PATIENCE)  # blocking")
    assert began.blocked_for >= LIMIT
    assert (ended.task_name, ended.where, ended.is_over) == ("the culprit", began.where, True)
    assert ended.blocked_for >= began.blocked_for


async def test_a_long_stall_is_reported_once_and_each_stall_anew() -> None:
    reports = Reports()

    class Asked(LoopWatch):
        def __init__(self) -> None:
            super().__init__(reports, limit=LIMIT)
            self.again = threading.Semaphore(0)

        def _is_wanted(self, lookout: _Lookout) -> bool:
            self.again.release()
            return super()._is_wanted(lookout)

    async def block(watch: Asked) -> None:
        reports.began.clear()
        assert reports.began.wait(PATIENCE)
        while watch.again.acquire(blocking=False):
            pass
        for _ in range(5):
            assert watch.again.acquire(timeout=PATIENCE)

    with Asked() as watch:
        for stall_count in (1, 2):
            await asyncio.create_task(block(watch))
            assert await asyncio.to_thread(reports.ended.wait, PATIENCE)
            reports.ended.clear()
            assert [stall.is_over for stall in reports.stalls] == [False, True] * stall_count


async def test_a_bare_callback_that_blocks_has_no_name_but_a_line(reports: Reports) -> None:
    with LoopWatch(reports, limit=LIMIT):
        asyncio.get_running_loop().call_soon(lambda: reports.began.wait(PATIENCE))
        assert await asyncio.to_thread(reports.ended.wait, PATIENCE)
    assert reports.stalls[0].task_name is None
    assert "call_soon(lambda: reports.began.wait(PATIENCE))" in reports.stalls[0].where


async def test_a_block_within_a_selector_of_its_own_is_not_taken_for_rest(reports: Reports) -> None:
    def select() -> None:
        with selectors.DefaultSelector() as selector:
            while not reports.began.is_set():
                selector.select(0.01)

    with LoopWatch(reports, limit=LIMIT):
        select()
    assert "test_loop_watch.py" in reports.stalls[0].where
    assert "in select: " in reports.stalls[0].where


async def test_a_loop_at_rest_is_seen_to_be(reports: Reports) -> None:
    loop_thread = threading.get_ident()

    def look() -> bool:
        looks = (_is_at_rest(sys._current_frames().get(loop_thread)) for _ in range(1_000_000))
        return any(looks)

    assert await asyncio.to_thread(look)
    assert not _is_at_rest(sys._getframe())
    assert not _is_at_rest(None)
    assert reports.stalls == []


async def test_it_watches_until_the_last_has_stopped(reports: Reports) -> None:
    watch = LoopWatch(reports, limit=LIMIT)
    watch.start()
    watch.start()
    (thread,) = watchers()
    watch.stop()
    with watch:
        assert watchers() == [thread]
    assert thread.is_alive()
    watch.stop()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()


async def test_it_can_be_started_again(reports: Reports) -> None:
    watch = LoopWatch(reports, limit=LIMIT)
    for _ in range(2):
        with watch:
            (thread,) = watchers()
        await asyncio.to_thread(thread.join, PATIENCE)
        assert not thread.is_alive()


async def test_stopping_too_often_is_refused(reports: Reports) -> None:
    watch = LoopWatch(reports)
    with pytest.raises(ClockUseError, match="more often than"):
        watch.stop()


async def test_one_watch_watches_one_loop_at_a_time(reports: Reports) -> None:
    watch = LoopWatch(reports, limit=LIMIT)

    async def elsewhere() -> None:
        with watch:
            pass

    with watch, pytest.raises(ClockUseError, match="watching another event loop"):
        await asyncio.to_thread(asyncio.run, elsewhere())
    await asyncio.to_thread(asyncio.run, elsewhere())
    for thread in watchers():
        await asyncio.to_thread(thread.join, PATIENCE)
    assert watchers() == []


async def test_a_loop_that_turns_in_time_is_not_reported(reports: Reports) -> None:
    watch = LoopWatch(reports, limit=timedelta(seconds=PATIENCE))
    lookout = _Lookout(asyncio.get_running_loop(), threading.get_ident())
    assert await asyncio.to_thread(watch._time_one_turn, lookout)
    assert reports.stalls == []


def test_it_ends_when_the_loop_is_closed_under_it(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    watch = LoopWatch(reports, limit=LIMIT)
    asked: list[_Lookout] = []

    def is_wanted(lookout: _Lookout) -> bool:
        asked.append(lookout)
        return True

    monkeypatch.setattr(watch, "_is_wanted", is_wanted)
    watch._watch(_Lookout(loop, threading.get_ident()))
    assert len(asked) == 1
    assert reports.stalls == []


@pytest.mark.parametrize("limit", [timedelta(0), -LIMIT])
def test_a_limit_must_be_positive(reports: Reports, limit: timedelta) -> None:
    with pytest.raises(InvalidInputError, match="limit must be positive"):
        LoopWatch(reports, limit=limit)
