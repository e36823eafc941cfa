"""Starts and ends of runs: S1, S2, T1, T2, T3, and L1 at the moment of a start."""

from tests.verification.trace.actions import RunFailed, RunStarted, RunSucceeded
from tests.verification.trace.judge.calls import settle_quiet_stops
from tests.verification.trace.judge.case import Case, Life, Run, Task
from tests.verification.trace.judge.worlds import (
    World,
    fail,
    may_start,
    may_succeed,
    start,
    succeed,
)
from tests.verification.trace.report import show


def judge_start(case: Case, position: int, entry: RunStarted) -> None:
    task, life = case.task(entry.name), case.life(entry.instance)
    flow = case.timeline.flows[position]
    if task.run is not None:
        _object_to_overlap(case, position, entry, task)
    elif not life.is_active or entry.name not in life.tasks:
        _object_to_inactivity(case, position, entry, life)
    case.require_punctuality((entry.name,), flow)
    _enter(case, position, entry, task)
    if task.run is not None:
        case.life(task.run.instance).running.discard(entry.name)
    life.running.add(entry.name)
    task.run = Run(entry.instance, position)
    task.started_at, task.started_by, task.cut_in = entry.at, entry.instance, None


def judge_end(case: Case, position: int, entry: RunSucceeded | RunFailed) -> None:
    task, life = case.task(entry.name), case.life(entry.instance)
    if task.run is None or task.run.instance != entry.instance:
        _object_to_end(case, position, entry, task)
        return
    if isinstance(entry, RunFailed):
        _fail(case, entry, task, life)
    else:
        _succeed(case, position, entry, task)
    task.run = None
    life.running.discard(entry.name)
    task.free_from = task.ended_at = case.timeline.flows[position]
    task.ended_by, task.end_position = entry.instance, position
    settle_quiet_stops(life, task.free_from)


def _enter(case: Case, position: int, entry: RunStarted, task: Task) -> None:
    """Take the start into account, and object if no world owed it."""
    now = entry.at
    fitting = [world for world in task.worlds if may_start(world, now, case.pulses)]
    if not fitting and task.run is None and entry.name in case.life(entry.instance).tasks:
        _object_to_unowed(case, position, entry, task)
    task.worlds = frozenset(
        after
        for world in fitting or task.worlds
        for after in start(world, now, case.pulses, case.tolerance.claim_lag)
    )


def _fail(case: Case, entry: RunFailed, task: Task, life: Life) -> None:
    opened = [
        call.tasks[task.name] for call in life.initializes.values() if task.name in call.tasks
    ]
    delays = [facts.retry_delay for facts in opened]
    pause = case.tolerance.after_failure
    task.worlds = frozenset(
        after for world in task.worlds for after in fail(world, entry.at, delays, pause)
    )


def _succeed(case: Case, position: int, entry: RunSucceeded, task: Task) -> None:
    fitting = [world for world in task.worlds if may_succeed(world)]
    if not fitting:
        message = (
            f"{entry.name!r} succeeded again with the run that began at "
            f"{show(task.started_at or entry.at)}, but was not due since its last success began"
        )
        case.object("S2", position, entry, message, entry.name)
    task.worlds = frozenset(succeed(world) for world in fitting or task.worlds)


def _object_to_overlap(case: Case, position: int, entry: RunStarted, task: Task) -> None:
    where = f" in {task.started_by!r}" if task.started_by else ""
    message = (
        f"{entry.name!r} started at {show(entry.at)} while the run that began at "
        f"{show(task.started_at or entry.at)}{where} had not ended"
    )
    case.object("T2", position, entry, message, entry.name)
    case.object("S1", position, entry, message, entry.name)


def _object_to_inactivity(case: Case, position: int, entry: RunStarted, life: Life) -> None:
    if life.is_active:
        message = f"{entry.name!r} started at {show(entry.at)}, but is not in the active list"
        case.object("S1", position, entry, message, entry.name)
        return
    reason = {None: "no list is active", "crash": "it crashed", "stop": "it was stopped"}
    message = (
        f"{entry.name!r} started at {show(entry.at)}, but the scheduler is not active: "
        f"{reason[life.ended_by]}"
    )
    case.object("S1", position, entry, message, entry.name)
    if life.ended_by == "crash":
        case.object("T1", position, entry, message, entry.name)
    elif life.ended_by == "stop" and not life.stops:
        case.object("T3", position, entry, message, entry.name)


def _object_to_unowed(case: Case, position: int, entry: RunStarted, task: Task) -> None:
    facts = "; or ".join(sorted(_explain(world, case) for world in task.worlds))
    before = "never started before"
    if task.started_at is not None:
        by = f" in {task.started_by!r}" if task.started_by else ""
        before = f"last start {show(task.started_at)}{by}"
    message = f"{entry.name!r} started at {show(entry.at)} but nothing was owed: {before}; {facts}"
    case.object("S1", position, entry, message, entry.name)


def _explain(world: World, case: Case) -> str:
    if not world.is_known:
        return "the task is not known"
    due_at = case.pulses.first_after(world.expression, world.mark)
    due = f"next due {show(due_at)}" if due_at else "never due again"
    retry = f", retry at {show(world.retry_at)}" if world.retry_at else ", no retry pending"
    return f"{world.expression!r} {due}{retry}"


def _object_to_end(case: Case, position: int, entry: RunSucceeded | RunFailed, task: Task) -> None:
    if task.cut_in == entry.instance:
        message = f"the run of {entry.name!r} ended, but a crash had cut it off"
        case.object("T4", position, entry, message, entry.name)
    else:
        message = f"a run of {entry.name!r} ended, but none had begun"
        case.object("EA7", position, entry, message, entry.name)
