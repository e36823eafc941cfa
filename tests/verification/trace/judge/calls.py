"""Calls of initialize and stop: S3 to S6, L2, L3, and what they make active or end."""

from collections.abc import Iterable
from datetime import datetime

from tests.verification.trace.actions import (
    InitializeCalled,
    InitializeFailed,
    InitializeReturned,
    StopCalled,
    StopFailed,
    StopReturned,
    TaskFacts,
)
from tests.verification.trace.judge.case import Case, Duty, Life, OpenInitialize, OpenStop, Task
from tests.verification.trace.judge.timeline import Flow
from tests.verification.trace.judge.worlds import TakeOver
from tests.verification.trace.report import show
from tests.verification.trace.validity import find_flaw

_CANCELLED = "CancelledError"
_REFUSED = "SchedulerAlreadyActiveError"


def judge_initialize_call(case: Case, position: int, entry: InitializeCalled) -> None:
    life = case.life(entry.instance)
    flaw = find_flaw(entry.registrations, case.edition.dialect)
    is_busy = bool(life.initializes) or bool(life.stops) or life.is_failing
    is_taken = life.is_occupied and not case.edition.reinitializes
    for other in life.initializes.values():
        other.is_refusable = True
    life.initializes[entry.call] = OpenInitialize(
        called=entry,
        position=position,
        flow=case.timeline.flows[position],
        flaw=flaw,
        is_refusable=is_busy or is_taken,
        tasks=_tasks_of(entry) if flaw is None else {},
    )


def judge_initialize_return(case: Case, position: int, entry: InitializeReturned) -> None:
    life = case.life(entry.instance)
    opened = _close_initialize(case, position, entry, life)
    if opened is None:
        return
    if opened.flaw is not None:
        message = f"initialize succeeded with an invalid list: {opened.flaw}"
        case.object("S4", position, entry, message)
    if opened.deserted_at is not None:
        message = "initialize succeeded after a stop, called meanwhile, had already returned"
        case.object("S3", position, entry, message)
    if _is_taken(case, life, opened):
        message = "initialize succeeded although an earlier list was neither stopped nor crashed"
        case.object("S6", position, entry, message)
    _activate(case, position, entry, life, opened)
    settle_quiet_stops(life, case.timeline.flows[position])


def judge_initialize_failure(case: Case, position: int, entry: InitializeFailed) -> None:
    life = case.life(entry.instance)
    opened = _close_initialize(case, position, entry, life)
    if opened is None:
        return
    # A call that was refused for another has touched nothing, whatever befell the store meanwhile.
    store_failed = entry.error != _REFUSED and case.has_store_failed_since(opened.position)
    is_cut = store_failed or entry.error == _CANCELLED
    if opened.flaw is None and not (opened.is_refusable or is_cut):
        message = f"a valid list was refused with {entry.error} though nothing stood in its way"
        case.object("S5", position, entry, message)
    if opened.flaw is None and is_cut:
        suppose_taken_over(case, opened, entry.at)
        if life.is_active and case.edition.reinitializes and store_failed:
            deactivate(case, life, case.timeline.flows[position])
            life.is_failing = True
    settle_quiet_stops(life, case.timeline.flows[position])


def judge_stop_call(case: Case, position: int, entry: StopCalled) -> None:
    life = case.life(entry.instance)
    flow = case.timeline.flows[position]
    deactivate(case, life, flow)
    life.ended_by = "stop"
    life.stops[entry.call] = OpenStop(position, flow, frozenset(life.initializes))
    settle_quiet_stops(life, flow)


def judge_stop_end(case: Case, position: int, entry: StopReturned | StopFailed) -> None:
    life = case.life(entry.instance)
    stop = life.stops.pop(entry.call, None)
    if stop is None:
        _object_to_stray_call(case, position, entry, life)
        return
    flow = case.timeline.flows[position]
    _require_rest(case, position, entry, life, stop)
    require_prompt_stop(case, life, stop, flow)
    if isinstance(entry, StopFailed) and not case.has_store_failed_since(stop.position):
        message = f"stop failed with {entry.error} though the store did not"
        case.object("L3", position, entry, message)
    if not life.is_active:
        life.is_occupied = life.is_failing = False


def suppose_taken_over(case: Case, opened: OpenInitialize, ended_at: datetime) -> None:
    """An initialize was cut off: from here on it may have been remembered or not."""
    marks = _marks(case, opened, ended_at)
    for name in case.tasks.keys() | opened.tasks.keys():
        task = case.task(name)
        take_over = _meet(case, task, opened, marks)
        task.worlds |= take_over.apply(task.worlds)


def deactivate(case: Case, life: Life, flow: Flow) -> None:
    if life.is_active:
        case.require_punctuality(life.tasks, flow)
        life.is_active = False


def require_prompt_initialize(case: Case, opened: OpenInitialize, until: Flow) -> None:
    words = f"initialize call {opened.called.call} was under way"
    case.object_to_delay(Duty("L2", opened.flow, len(opened.tasks), words), until)
    if opened.deserted_at is not None:
        words = "initialize went on after the stop that should have waited for it,"
        case.object_to_delay(Duty("S3", opened.deserted_at, len(opened.tasks), words), until)


def require_prompt_stop(case: Case, life: Life, stop: OpenStop, until: Flow) -> None:
    if stop.quiet_from is not None:
        words = "stop had nothing left to wait for"
        case.object_to_delay(Duty("L3", stop.quiet_from, len(life.tasks), words), until)


def settle_quiet_stops(life: Life, flow: Flow) -> None:
    """Start the time of each stop that has nothing left to wait for."""
    if life.running or life.initializes:
        return
    for stop in life.stops.values():
        if stop.quiet_from is None:
            stop.quiet_from = flow


def _close_initialize(
    case: Case, position: int, entry: InitializeReturned | InitializeFailed, life: Life
) -> OpenInitialize | None:
    opened = life.initializes.pop(entry.call, None)
    if opened is None:
        _object_to_stray_call(case, position, entry, life)
        return None
    require_prompt_initialize(case, opened, case.timeline.flows[position])
    return opened


def _is_taken(case: Case, life: Life, opened: OpenInitialize) -> bool:
    is_stopping = any(stop.position < opened.position for stop in life.stops.values())
    return life.is_occupied and (is_stopping or not case.edition.reinitializes)


def _activate(
    case: Case, position: int, entry: InitializeReturned, life: Life, opened: OpenInitialize
) -> None:
    """The list takes effect; if stop was called meanwhile it is remembered but starts nothing."""
    flow = case.timeline.flows[position]
    marks = _marks(case, opened, entry.at)
    case.require_punctuality(life.tasks if life.is_active else (), flow)
    life.is_active, life.tasks = False, {}
    for name in case.tasks.keys() | opened.tasks.keys():
        task = case.task(name)
        take_over = _meet(case, task, opened, marks)
        before, task.worlds = task.worlds, take_over.apply(task.worlds)
        if task.worlds != before or not case.holders(name):
            task.free_from = flow
    life.tasks, life.called_position = opened.tasks, opened.position
    is_stopped = any(stop.position > opened.position for stop in life.stops.values())
    life.is_active, life.is_occupied, life.is_failing = not is_stopped, True, False
    life.ended_by = "stop" if is_stopped else None


def _meet(case: Case, task: Task, opened: OpenInitialize, marks: frozenset[datetime]) -> TakeOver:
    """The list takes effect somewhere between call and return, perhaps while the task ran."""
    life = case.life(opened.called.instance)
    return TakeOver(
        facts=opened.tasks.get(task.name),
        marks=marks,
        is_running=task.was_running_since(opened.position),
        is_claimed=life.is_occupied and case.has_store_failed_since(life.called_position),
        edition=case.edition,
    )


def _marks(case: Case, opened: OpenInitialize, ended_at: datetime) -> frozenset[datetime]:
    """The moments before the minutes of the call and of the return, and of any setback between."""
    instants = (opened.called.at, *opened.shown_since, ended_at)
    return frozenset(case.pulses.before_minute(instant) for instant in instants)


def _require_rest(
    case: Case, position: int, entry: StopReturned | StopFailed, life: Life, stop: OpenStop
) -> None:
    running = [name for name in sorted(life.running) if _began_before(case, name, stop)]
    if running:
        message = f"stop returned while {_list(running)} had not ended"
        case.object("S3", position, entry, message, running[0])
    for call in stop.awaited_calls & life.initializes.keys():
        life.initializes[call].deserted_at = case.timeline.flows[position]


def _began_before(case: Case, name: str, stop: OpenStop) -> bool:
    run = case.task(name).run
    return run is not None and run.position < stop.position


def _object_to_stray_call(
    case: Case,
    position: int,
    entry: InitializeReturned | InitializeFailed | StopReturned | StopFailed,
    life: Life,
) -> None:
    if entry.call in life.cut_calls:
        message = f"call {entry.call} ended at {show(entry.at)}, but a crash had cut it off"
        case.object("T4", position, entry, message)
    else:
        message = f"call {entry.call} ended, but is not open"
        case.object("EA7", position, entry, message)


def _tasks_of(entry: InitializeCalled) -> dict[str, TaskFacts]:
    listed = entry.registrations or ()
    return {element.name: element for element in listed if isinstance(element, TaskFacts)}


def _list(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
