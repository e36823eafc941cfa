"""Counts, from what several instances did, how often each occurrence was started.

The judge of ``rota.testing`` knows the whole theory. This count knows only its plainest sentence,
and shares no code with it: each occurrence that some instance lived to see is started once, and
again only when the run was cut off by the death of its instance.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.verification.trace import (
    Crashed,
    Entry,
    InitializeReturned,
    RunFailed,
    RunStarted,
    RunSucceeded,
    StopCalled,
)

from rota import parse_cron

MINUTE = timedelta(minutes=1)
END = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class Run:
    """One run as it was seen. ``cut_at``: when its instance died before the end was stored."""

    instance: str
    started_at: datetime
    ended_at: datetime | None = None
    cut_at: datetime | None = None


def merge_traces(traces: Iterable[Sequence[Entry]]) -> list[Entry]:
    return sorted((entry for trace in traces for entry in trace), key=lambda entry: entry.at)


def list_runs(trace: Iterable[Entry], unstored_for: timedelta) -> dict[str, list[Run]]:
    """The runs of each task in order.

    A run that ended no longer than ``unstored_for`` before its instance died may be unstored.
    """
    runs: dict[str, list[Run]] = {}
    for entry in trace:
        match entry:
            case RunStarted(name=name):
                runs.setdefault(name, []).append(Run(entry.instance, entry.at))
            case RunSucceeded(name=name) | RunFailed(name=name):
                _last_of(runs[name], entry.instance).ended_at = entry.at
            case Crashed():
                for of_task in runs.values():
                    _cut_off(of_task, entry, unstored_for)
    return runs


def _last_of(runs: Sequence[Run], instance: str) -> Run:
    return next(run for run in reversed(runs) if run.instance == instance)


def _cut_off(runs: Iterable[Run], crash: Crashed, unstored_for: timedelta) -> None:
    for run in runs:
        is_open = run.ended_at is None or run.ended_at >= crash.at - unstored_for
        if run.instance == crash.instance and is_open:
            run.cut_at = crash.at


def list_lives(trace: Iterable[Entry]) -> dict[str, tuple[datetime, datetime]]:
    """From when to when each instance was at work."""
    lives: dict[str, tuple[datetime, datetime]] = {}
    for entry in trace:
        match entry:
            case InitializeReturned():
                lives[entry.instance] = (entry.at, END)
            case Crashed() | StopCalled() if entry.instance in lives:
                begun_at, ended_at = lives[entry.instance]
                lives[entry.instance] = (begun_at, min(ended_at, entry.at))
    return lives


def is_survived(minute: datetime, lives: Mapping[str, tuple[datetime, datetime]]) -> bool:
    """Whether at every moment of this minute some instance was at work."""
    covered_to = minute
    for begun_at, ended_at in sorted(lives.values()):
        if begun_at <= covered_to:
            covered_to = max(covered_to, ended_at)
    return covered_to >= minute + MINUTE


def find_miscounts(
    trace: Sequence[Entry],
    expressions: Mapping[str, str],
    window: tuple[datetime, datetime],
    unstored_for: timedelta = timedelta(),
) -> Iterator[str]:
    """Every occurrence within the window that was survived but not started exactly once."""
    runs, lives = list_runs(trace, unstored_for), list_lives(trace)
    for name, expression in expressions.items():
        occurrences = pairwise(parse_cron(expression).between(*window, UTC))
        for due_at, next_at in occurrences:
            starts = _list_starts(runs.get(name, []), due_at, next_at)
            if is_survived(due_at, lives) and not _is_one(starts):
                shown = ", ".join(f"{run.started_at} by {run.instance}" for run, _ in starts)
                yield f"{name!r}, due {due_at}: started {shown or 'never'}"


def _is_one(starts: Sequence[tuple[Run, bool]]) -> bool:
    return bool(starts) and all(is_repeated for _, is_repeated in starts[1:])


def _list_starts(
    runs: Sequence[Run], due_at: datetime, next_at: datetime
) -> list[tuple[Run, bool]]:
    """The starts that answer one occurrence, each with whether it repeats a run cut off before."""
    return [
        (run, number > 0 and runs[number - 1].cut_at is not None)
        for number, run in enumerate(runs)
        if due_at <= run.started_at < next_at
    ]
