"""The judge of traces: reads what a scheduler did and says which axioms it broke.

It knows nothing of the scheduler it judges but what the trace shows. It replays the states of the
theory record by record and tests every axiom where it can first fail: a start when it happens, a
lateness when the obligation ends or the trace does.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta, tzinfo
from heapq import merge
from typing import Any

from tests.verification.trace.actions import (
    ClockJumped,
    Crashed,
    Entry,
    InitializeCalled,
    InitializeFailed,
    InitializeReturned,
    LeftRunning,
    RunFailed,
    RunStarted,
    RunSucceeded,
    StopCalled,
    StopFailed,
    StopReturned,
    StorageFault,
)
from tests.verification.trace.editions import (
    DECLARATIVE_EDITION,
    Allowance,
    Edition,
    Tolerance,
    linear_allowance,
)
from tests.verification.trace.judge.calls import (
    judge_initialize_call,
    judge_initialize_failure,
    judge_initialize_return,
    judge_stop_call,
    judge_stop_end,
    require_prompt_initialize,
    require_prompt_stop,
)
from tests.verification.trace.judge.case import Case
from tests.verification.trace.judge.interruptions import (
    judge_crash,
    note_fault,
    set_clock_back,
    suppose_left_running,
)
from tests.verification.trace.judge.pulses import Pulses
from tests.verification.trace.judge.runs import judge_end, judge_start
from tests.verification.trace.judge.timeline import Timeline
from tests.verification.trace.report import Verdict

from rota.clock.protocol import to_utc
from rota.triggers.zone import Fold

REPLICA_TOLERANCE = Tolerance(
    after_crash=timedelta(seconds=30),
    settle_lag=timedelta(seconds=2),
    claim_lag=timedelta(seconds=2),
)
"""What is forgiven among instances that share a store: a dead one is found out in 30 seconds."""

_JUDGES: dict[type[Entry], Callable[[Case, int, Any], None]] = {
    InitializeCalled: judge_initialize_call,
    InitializeReturned: judge_initialize_return,
    InitializeFailed: judge_initialize_failure,
    StopCalled: judge_stop_call,
    StopReturned: judge_stop_end,
    StopFailed: judge_stop_end,
    RunStarted: judge_start,
    RunSucceeded: judge_end,
    RunFailed: judge_end,
    Crashed: judge_crash,
    StorageFault: note_fault,
    LeftRunning: suppose_left_running,
}


def check_trace(
    trace: Iterable[Entry],
    *,
    zone: tzinfo,
    edition: Edition = DECLARATIVE_EDITION,
    fold: Fold | None = None,
    allowance: timedelta | Allowance = linear_allowance,
    tolerance: Tolerance | None = None,
) -> Verdict:
    """Judge what one scheduler, restarted or crashed as often as it was, did on one store.

    ``fold`` overrides the edition's own rule for a minute shown twice. ``allowance`` is how late a
    start, an initialize or a stop may be; under a virtual clock it can be zero.
    """
    records = tuple(trace)
    for position, entry in enumerate(records):
        to_utc(entry.at, f"trace[{position}].at")
    tolerated = tolerance or Tolerance()
    case = Case(
        edition=edition,
        tolerance=tolerated,
        allowance=_constant(allowance) if isinstance(allowance, timedelta) else allowance,
        pulses=Pulses(zone, fold or edition.fold, edition.dialect),
        timeline=Timeline(records, tolerated),
    )
    _walk(case, records)
    _judge_end_of_trace(case)
    found = sorted(case.violations, key=lambda violation: violation.position)
    return Verdict(tuple(found), records)


def check_replicas(
    traces: Iterable[Sequence[Entry]],
    *,
    zone: tzinfo,
    edition: Edition = DECLARATIVE_EDITION,
    allowance: timedelta | Allowance = linear_allowance,
    tolerance: Tolerance = REPLICA_TOLERANCE,
) -> Verdict:
    """Judge several instances that shared one store, each from a trace of its own.

    The traces are merged by time; each must be in order in itself and name its ``instance``. Among
    all instances no occurrence is started twice and no task overlaps itself, and as long as one
    of them is active each occurrence is started once.
    """
    merged = merge(*traces, key=lambda entry: entry.at)
    return check_trace(merged, zone=zone, edition=edition, allowance=allowance, tolerance=tolerance)


def _constant(allowance: timedelta) -> Allowance:
    return lambda _: allowance


def _walk(case: Case, records: Sequence[Entry]) -> None:
    shown = records[0].at if records else None
    for position, entry in enumerate(records):
        if shown is not None and entry.at < shown:
            set_clock_back(case, position, shown, entry.at)
        shown = entry.at
        if isinstance(entry, ClockJumped):
            if entry.to < shown:
                set_clock_back(case, position, shown, entry.to)
            shown = entry.to
        judge = _JUDGES.get(type(entry))
        if judge is not None:
            judge(case, position, entry)


def _judge_end_of_trace(case: Case) -> None:
    """What is still open at the end is judged only if it was late by then."""
    end = case.timeline.end
    case.require_punctuality(list(case.tasks), end)
    for life in case.lives.values():
        for opened in life.initializes.values():
            require_prompt_initialize(case, opened, end)
        for stop in life.stops.values():
            require_prompt_stop(case, life, stop, end)
