"""A call that waits too long gives up; other calls do not."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from rota.stores.postgres import connections as module
from rota.stores.postgres.connections import Deadlines

PATIENCE = timedelta(seconds=20)


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Counts seconds, and the timers that are set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []
        self.set_count = 0

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return self.call_at(self.now + seconds, callback)

    def call_at(self, at: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at, callback))
        self.set_count += 1
        return self.timers[-1]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.at <= self.now and not timer.is_cancelled]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            timer.callback()


class Caller:
    has_given_up = False

    def give_up(self) -> None:
        self.has_given_up = True


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    monkeypatch.setattr(module, "get_running_loop", lambda: loop)
    return loop


def test_waiters_time_out_one_by_one(loop: Loop) -> None:
    deadlines, late, later = Deadlines(PATIENCE), Caller(), Caller()
    deadlines.begin(late)
    loop.pass_time(5)
    deadlines.begin(later)
    loop.pass_time(14.9)
    assert not late.has_given_up
    loop.pass_time(0.1)
    assert late.has_given_up
    assert not later.has_given_up
    loop.pass_time(4.9)
    assert not later.has_given_up
    loop.pass_time(0.1)
    assert later.has_given_up
    deadlines.end(late)


def test_many_quick_answers_need_one_timer(loop: Loop) -> None:
    deadlines = Deadlines(PATIENCE)
    for _ in range(100):
        caller = Caller()
        deadlines.begin(caller)
        loop.pass_time(0.1)
        deadlines.end(caller)
        assert not caller.has_given_up
    assert loop.set_count == 1


def test_a_waiter_still_gives_up_after_a_quiet_time(loop: Loop) -> None:
    deadlines, quick, late = Deadlines(PATIENCE), Caller(), Caller()
    deadlines.begin(quick)
    deadlines.end(quick)
    loop.pass_time(20)
    assert loop.timers == []
    deadlines.begin(late)
    loop.pass_time(20)
    assert (quick.has_given_up, late.has_given_up) == (False, True)


def test_nothing_is_left_behind_when_it_is_closed(loop: Loop) -> None:
    deadlines, caller = Deadlines(PATIENCE), Caller()
    deadlines.begin(caller)
    deadlines.close()
    deadlines.close()
    loop.pass_time(60)
    assert not caller.has_given_up
