"""The explanation of a job, and the wording of errors and times in it."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, NamedTuple

import msgspec

from rota.auth.masking import mask_text
from rota.errors import InvalidZoneError
from rota.jobs import Job, JobId, JobStatus
from rota.triggers.zone import load_zone

LONGEST_ERROR = 300

_TRACEBACK = "Traceback (most recent call last):"


def name_error(text: str | None) -> str:
    """The line of an error that names it; empty when there is no error.

    This is the first line, or the last line of a Python traceback. Rota tokens and passwords in
    URLs are masked.
    """
    lines = [line.rstrip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return ""
    return mask_text(_find_telling(lines).strip())[:LONGEST_ERROR]


def end_sentence(text: str) -> str:
    """The text, ending in a full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def format_error(text: str | None) -> str:
    """An error as the end of a sentence."""
    return end_sentence(name_error(text) or "no error was recorded")


def show(instant: datetime, zone: tzinfo = UTC) -> str:
    """An instant for people: the wall time in a zone, and UTC."""
    local, universal = instant.astimezone(zone), instant.astimezone(UTC)
    told = f"{local:%a %Y-%m-%d %H:%M:%S %Z}"
    if local.utcoffset() == timedelta(0):
        return told
    day = "%H:%M:%S" if local.date() == universal.date() else "%a %Y-%m-%d %H:%M:%S"
    return f"{told} ({universal.strftime(day)} UTC)"


def format_duration(duration: timedelta) -> str:
    """A duration in its two largest units: ``3 days 4 hours``, ``12 seconds``."""
    seconds = int(duration.total_seconds())
    parts: list[str] = []
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, length)
        if number:
            parts.append(f"{number} {name}{'s' if number > 1 else ''}")
    return " ".join(parts[:2]) or "less than a second"


def format_job(job: Job) -> str:
    """The name of a job inside a sentence."""
    return f'job {job.id} ("{job.name}")'


def zone_of(job: Job) -> tzinfo:
    """The zone of the job's series; UTC for a job without a series or with an unknown zone."""
    if job.recurrence is None:
        return UTC
    try:
        return load_zone(job.recurrence.zone)
    except InvalidZoneError:
        return UTC


def _find_telling(lines: list[str]) -> str:
    if _TRACEBACK not in lines:
        return lines[0]
    last = len(lines) - lines[::-1].index(_TRACEBACK)
    below = lines[last:]
    while below and below[0].startswith(" "):
        below.pop(0)
    return below[0] if below else lines[-1]


Answer = Literal[
    "ran",
    "failed",
    "cancelled",
    "did not run",
    "will not run",
    "running",
    "stalled",
    "due",
    "will run",
    "waits",
    "not known",
]
"""The state of the job in a word.

``due``: only a free worker, or what the reasons name, is missing. ``will run``: at a known time.
``waits``: for other jobs, or to be resumed. ``did not run`` and ``not known`` answer questions
about an instant; ``not known`` means the history does not reach back far enough.
"""

ReasonCode = Literal[
    "succeeded",
    "exhausted",
    "discarded",
    "lost",
    "cancelled",
    "blocked",
    "dependency",
    "lease",
    "stalled",
    "due",
    "later",
    "retry",
    "attempt",
    "snoozed",
    "deferred",
    "gate",
    "limit",
    "rate",
    "no_worker",
    "line",
    "moved",
    "paused",
    "occurrence",
    "clock_change",
    "missed",
    "catch_up",
    "overlap",
    "next_occurrence",
    "series_end",
    "replaced_by",
    "replaces",
    "now",
]


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason, in words and for programs.

    ``at`` is the instant it refers to and ``until`` its end. ``job_id`` names another job, ``who``
    a person or worker.
    """

    code: ReasonCode
    text: str
    at: datetime | None = None
    until: datetime | None = None
    job_id: JobId | None = None
    who: str | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in a word and a sentence, and the reasons, most important first.

    ``next_at`` is the next known event: the job starts, or the answer may change. ``at`` is the
    instant in question, if any.
    """

    job_id: JobId
    status: JobStatus
    answer: Answer
    sentence: str
    reasons: tuple[Reason, ...]
    next_at: datetime | None = None
    at: datetime | None = None
    asked_at: datetime

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"- {reason.text}" for reason in self.reasons)])


class Finding(NamedTuple):
    """The answer, the sentence that gives it, and the reasons, most important first."""

    answer: Answer
    sentence: str
    reasons: list[Reason]
    next_at: datetime | None = None
