"""The board of ``rota up``."""

import io
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rich.console import Console

from rota.cli.up import MOST_TASKS, Board
from rota.events import (
    Event,
    SchedulerStopped,
    TaskPreserved,
    TaskRetryStarted,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
)
from rota.testing import VirtualClock

NOW = datetime(2027, 3, 26, 12, 0, 30, tzinfo=UTC)


def draw(board: Board) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(board.render())
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return] # it is a StringIO


def make_board(*tasks: tuple[str, str]) -> Board:
    return Board(VirtualClock(NOW), ZoneInfo("Europe/London"), tasks)


def test_the_next_task_due_comes_first_with_its_schedule_in_words() -> None:
    board = make_board(("late", "0 9 * * 1-5"), ("soon", "* * * * *"))
    lines = draw(board).splitlines()
    assert lines[0] == "Fri 2027-03-26 12:00:30  Europe/London"
    assert lines[3].split() == ["soon", "Every", "minute", "Fri", "12:01", "30s", "-"]
    assert lines[4].startswith("late  At 09:00 on Monday to Friday  Mon 09:00")


def test_the_last_outcome_of_each_task_is_shown() -> None:
    board = make_board(("a", "* * * * *"), ("b", "* * * * *"), ("c", "* * * * *"))
    board.follow(TaskRunStarted(task_name="a", scheduled_time=NOW, actual_time=NOW))
    board.follow(TaskRunCompleted(task_name="b", duration=12.4))
    retry_at = NOW + timedelta(seconds=40)
    board.follow(
        TaskRunFailed(task_name="c", duration=1.0, error="Oops: x", next_retry_at=retry_at)
    )
    shown = draw(board)
    assert "running" in shown
    assert "succeeded in 12 ms" in shown
    assert "failed, again at 12:01:10" in shown


def test_the_audit_is_worded_without_details() -> None:
    board = make_board()
    found: list[tuple[Event, str | None]] = [
        (
            TaskRunStarted(task_name="a", scheduled_time=NOW, actual_time=NOW),
            "a started, 0 ms late",
        ),
        (TaskRunCompleted(task_name="a", duration=90_000), "a succeeded in 1m 30s"),
        (
            TaskRunFailed(task_name="a", duration=1, error="E: \x1b[2J", next_retry_at=NOW),
            r"a failed: E: \x1b[2J",
        ),
        (TaskRetryStarted(task_name="a", retry_count=2), "a is tried again, retry 2"),
        (SchedulerStopped(), "scheduler stopped"),
        (TaskPreserved(task_name="a"), None),
    ]
    for event, words in found:
        line = board.follow(event)
        assert (line and line.plain) == (words and f"12:00:30  {words}")
    assert "a failed" in draw(board)


def test_a_long_list_is_cut_and_says_so() -> None:
    board = make_board(*((f"task {number}", "* * * * *") for number in range(MOST_TASKS + 5)))
    assert "... and 5 more" in draw(board)
