"""The timeline of a job: each attempt with its wait, duration, worker, error and log."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from rota.jobs import PAUSED_UNTIL, Attempt, Job, JobStatus, Lease, complete_history
from rota.server.pages.formats import Lines, format_length, show_text
from rota.server.pages.statuses import sign_of

MOST_SHOWN = 60_000
"""The most characters of tracebacks and logs on a page; more would make it slow."""

_OUTCOMES = {
    "failed": ("failed", "cross", "red"),
    "discarded": ("was discarded", "cross", "red"),
    "lost": ("was lost with its worker", "alert", "red"),
    "cancelled": ("was cancelled", "slash", "quiet"),
    "succeeded": ("succeeded", "check", "green"),
}
_LOOKS = {"succeeded": "good", "cancelled": "calm"}
_FRAME = re.compile(r"([\s|+]*)File \"(.*)\", line \d+")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python3|<frozen |"
    r"rota[/\\](?:worker[/\\]|task\.py|signature\.py|execution\.py)"
)
_LOGGED = re.compile(r"(\d{4}-\d\d-\d\dT[\d:.]+Z) ([A-Z]+) (\S+): (.*)", re.DOTALL)
_LOG_TONES = {"WARNING": "amber", "ERROR": "red", "CRITICAL": "red"}
_NARROWEST = 0.6
_MOMENT = timedelta(microseconds=1)


class Frames(NamedTuple):
    """Neighbouring lines of a traceback; if they are frames of libraries, how many."""

    text: Lines
    folded_count: int = 0


class LogLine(NamedTuple):
    """One record. ``after`` is the time since the attempt began."""

    after: str
    level: str
    tone: str
    text: Lines


class Step(NamedTuple):
    """One event. ``is_ahead``: it is yet to come.

    ``number`` is that of an attempt. ``is_cut``: its traceback and log would make the page too
    long; its own address shows them.
    """

    at: datetime
    headline: str
    shape: str
    tone: str = "plain"
    note: str = ""
    error: Lines | None = None
    is_ahead: bool = False
    number: int = 0
    traceback: Sequence[Frames] = ()
    log: Sequence[LogLine] = ()
    is_cut: bool = False
    is_running: bool = False


class Stretch(NamedTuple):
    """A part of the strip above the timeline, in percent of its width."""

    x: float
    width: float
    look: str
    title: str


def make_timeline(
    job: Job, attempts: Sequence[Attempt], now: datetime, asked: int | None = None
) -> list[Step]:
    """The events from the creation of the job to its end, or to the next one ahead.

    ``asked`` is the attempt whose traceback and log are shown in full first.
    """
    attempts = complete_history(job, attempts)
    whole = _choose_whole(attempts, asked)
    steps = [Step(job.created_at, "Created", "plus", "quiet")]
    before: Attempt | None = None
    for each in attempts:
        steps.append(_show_attempt(job, each, before, is_whole=each.number in whole))
        before = each
    steps += _show_present(job, attempts, now)
    return steps


def _choose_whole(attempts: Sequence[Attempt], asked: int | None) -> set[int]:
    """The attempts whose traceback and log are shown: the one asked for, then the newest."""
    room, chosen = MOST_SHOWN, set[int]()
    for each in sorted(attempts, key=lambda it: (it.number != asked, -it.number)):
        room -= len(each.traceback or "") + len(each.log or "")
        if room >= 0:
            chosen.add(each.number)
    return chosen


def _show_attempt(job: Job, attempt: Attempt, before: Attempt | None, *, is_whole: bool) -> Step:
    """An error that equals the previous one is not repeated."""
    words, shape, tone = _OUTCOMES.get(attempt.outcome, (attempt.outcome, "cross", "red"))
    notes = [*_say_wait(job, attempt, before), f"ran {format_length(attempt.lasted_for)}"]
    notes.append(f"on {attempt.worker}")
    error = attempt.error
    if error is not None and before is not None and error == before.error:
        error = None
        notes.append("same error as before")
    has_more = attempt.traceback is not None or attempt.log is not None
    return Step(
        attempt.started_at,
        f"Attempt {attempt.number} {words}",
        shape,
        tone,
        ", ".join(notes),
        None if error is None else show_text(error),
        number=attempt.number,
        traceback=fold_traceback(attempt.traceback) if is_whole and attempt.traceback else (),
        log=list(read_log(attempt)) if is_whole else (),
        is_cut=has_more and not is_whole,
    )


def _say_wait(job: Job, attempt: Attempt, before: Attempt | None) -> Iterator[str]:
    began, what = waited_since(job, before)
    if attempt.started_at >= began:
        yield f"{format_length(attempt.started_at - began)} after {what}"


def waited_since(job: Job, before: Attempt | None) -> tuple[datetime, str]:
    """From when an attempt waited, and what that instant is."""
    if before is not None:
        return before.ended_at, f"attempt {before.number}"
    due_at = job.occurrence_at or (job.created_at if job.attempt_count else job.due_at)
    return (due_at, "it was due") if due_at > job.created_at else (job.created_at, "creation")


def fold_traceback(text: str) -> list[Frames]:
    """The traceback with the frames of libraries folded, unless it has no other frames."""
    blocks: list[tuple[bool, str]] = []
    indent = None
    for line in text.rstrip().split("\n"):
        frame = _FRAME.match(line)
        if frame is not None:
            indent = len(frame[1])
            blocks.append((_LIBRARY.search(frame[2]) is not None, line))
        elif indent is not None and len(line) - len(line.lstrip(" |")) > indent:
            is_library, block = blocks.pop()
            blocks.append((is_library, f"{block}\n{line}"))
        else:
            indent = None
            blocks.append((False, line))
    if all(is_library for is_library, block in blocks if _FRAME.match(block)):
        return [Frames(show_text(text.rstrip()))]
    found = []
    for is_library, group in groupby(blocks, key=lambda it: it[0]):
        lines = [block for _, block in group]
        found.append(Frames(show_text("\n".join(lines)), len(lines) if is_library else 0))
    return found


def read_log(attempt: Attempt) -> Iterator[LogLine]:
    """The log by record. Lines that belong to the record before stay with it."""
    records: list[str] = []
    for line in (attempt.log or "").rstrip().split("\n"):
        if records and not _LOGGED.match(line):
            records[-1] += f"\n{line}"
        elif line:
            records.append(line)
    for record in records:
        parts = _LOGGED.match(record)
        if parts is None:
            yield LogLine("", "", "plain", show_text(record))
            continue
        after = datetime.fromisoformat(parts[1]) - attempt.started_at
        tone = _LOG_TONES.get(parts[2], "quiet")
        yield LogLine(
            f"+{format_length(max(after, timedelta()))}", parts[2], tone, show_text(parts[4])
        )


def _show_present(job: Job, attempts: Sequence[Attempt], now: datetime) -> Iterator[Step]:
    if job.deferral is not None and not job.status.is_terminal:
        times = "" if job.deferral.count == 1 else f", {job.deferral.count} times so far"
        note = f"{job.deferral.reason}{times}"
        until = job.deferral.until
        yield Step(until, "Held back until", "pause", "amber", note, is_ahead=until > now)
    if job.status is JobStatus.RUNNING and job.lease is not None:
        yield _show_running(job, job.lease, attempts, now)
    elif job.status.is_terminal:
        yield _show_end(job, attempts, now)
    elif job.due_at < PAUSED_UNTIL and job.status is JobStatus.READY:
        headline = "Due" if job.due_at <= now else "Will be due"
        yield Step(job.due_at, headline, "clock", "blue", is_ahead=job.due_at > now)


def _show_running(job: Job, lease: Lease, attempts: Sequence[Attempt], now: datetime) -> Step:
    taken_at, number = lease.taken_at, job.attempt_count + 1
    began, what = waited_since(job, attempts[-1] if attempts else None)
    note = f"{format_length(max(taken_at - began, timedelta()))} after {what}, "
    note += f"for {format_length(max(now - taken_at, timedelta()))} now, on {lease.worker}"
    headline = f"Attempt {number} is running"
    return Step(taken_at, headline, "play", "blue", note, number=number, is_running=True)


def _show_end(job: Job, attempts: Sequence[Attempt], now: datetime) -> Step:
    sign = sign_of(job, now)
    error = None
    is_shown = bool(attempts) and attempts[-1].error == job.last_error
    if job.last_error and not is_shown and job.status is not JobStatus.COMPLETED:
        error = show_text(job.last_error)
    return Step(job.updated_at, sign.word.capitalize(), sign.shape, sign.tone, "", error)


def make_strip(job: Job, attempts: Sequence[Attempt], now: datetime) -> list[Stretch]:
    """Waits and runs to scale, from the creation of the job to its end or now."""
    attempts = complete_history(job, attempts)
    runs = [(it.started_at, it.ended_at, *_name_run(it)) for it in attempts]
    if job.lease is not None and job.status is JobStatus.RUNNING:
        number = job.attempt_count + 1
        runs.append((job.lease.taken_at, now, f"attempt {number} is running", "line"))
    end = max([job.updated_at if job.status.is_terminal else now, *(it[1] for it in runs)])
    whole = max(end - job.created_at, _MOMENT)
    if not runs:
        return []

    def place(start: datetime, until: datetime, title: str, look: str) -> Stretch:
        x = min(max((start - job.created_at) / whole * 100, 0), 100 - _NARROWEST)
        width = min(max((until - start) / whole * 100, _NARROWEST), 100 - x)
        said = f"{title}: {format_length(max(until - start, timedelta()))}"
        return Stretch(round(x, 2), round(width, 2), look, said)

    starts = [job.created_at, *(until for _, until, _, _ in runs)]
    waits = [
        place(since, began, "waited", "calm-wash")
        for since, (began, *_) in zip(starts, runs, strict=False)
        if began > since
    ]
    return [*waits, *(place(*run) for run in runs)]


def _name_run(attempt: Attempt) -> tuple[str, str]:
    words = _OUTCOMES.get(attempt.outcome, (attempt.outcome,))[0]
    return f"attempt {attempt.number} {words}", _LOOKS.get(attempt.outcome, "bad")
