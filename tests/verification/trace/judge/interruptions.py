"""Crashes, jumps of the clock and failures of the store: what they cut off or leave uncertain."""

from datetime import datetime

from tests.verification.trace.actions import Crashed, LeftRunning, StorageFault
from tests.verification.trace.judge.calls import (
    deactivate,
    require_prompt_initialize,
    require_prompt_stop,
    suppose_taken_over,
)
from tests.verification.trace.judge.case import Case, Life, Task
from tests.verification.trace.judge.worlds import interrupt, leave_running, set_back


def judge_crash(case: Case, position: int, entry: Crashed) -> None:
    life = case.life(entry.instance)
    flow = case.timeline.flows[position]
    deactivate(case, life, flow)
    for name in life.running:
        _cut(case.task(name), entry.instance)
        case.task(name).free_from = flow
    _forget_unrecorded_ends(case, position, entry)
    _cut_calls(case, position, entry, life)
    life.running.clear()
    life.is_occupied = life.is_failing = False
    life.ended_by = "crash"


def note_fault(case: Case, position: int, entry: StorageFault) -> None:
    if entry.failed:
        case.failed_at_position = position
        over_at = case.timeline.flows[position] + entry.lasted
        case.failing_until = max(case.failing_until, over_at)


def suppose_left_running(case: Case, position: int, entry: LeftRunning) -> None:
    for name in entry.names:
        _leave_running(case.task(name))
        case.task(name).free_from = case.timeline.flows[position]


def set_clock_back(case: Case, position: int, before: datetime, after: datetime) -> None:
    """What was late until here is late; from here on only what the clock shows is demanded."""
    flow = case.timeline.flows[position]
    case.require_punctuality(list(case.tasks), flow)
    for task in case.tasks.values():
        task.worlds = frozenset(set_back(world, before, case.pulses) for world in task.worlds)
        task.free_from = flow
    for life in case.lives.values():
        for opened in life.initializes.values():
            opened.shown_since.append(after)


def _cut(task: Task, instance: str) -> None:
    task.run = None
    task.cut_in = instance
    task.worlds = frozenset(after for world in task.worlds for after in interrupt(world))


def _leave_running(task: Task) -> None:
    task.worlds = frozenset(after for world in task.worlds for after in leave_running(world))


def _forget_unrecorded_ends(case: Case, position: int, entry: Crashed) -> None:
    if not case.tolerance.settle_lag:
        return
    earliest = case.timeline.flows[position] - case.tolerance.settle_lag
    for task in case.tasks.values():
        is_recent = task.ended_at is not None and task.ended_at >= earliest
        if is_recent and task.ended_by == entry.instance and task.run is None:
            _leave_running(task)


def _cut_calls(case: Case, position: int, entry: Crashed, life: Life) -> None:
    flow = case.timeline.flows[position]
    for opened in life.initializes.values():
        require_prompt_initialize(case, opened, flow)
        if opened.flaw is None:
            suppose_taken_over(case, opened, entry.at)
    for stop in life.stops.values():
        require_prompt_stop(case, life, stop, flow)
    life.cut_calls |= life.initializes.keys() | life.stops.keys()
    life.initializes.clear()
    life.stops.clear()
