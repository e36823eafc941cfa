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
    """The line of an error that says what it was; empty for none.

    That is the first one, except in a traceback of Python, where it stands below the calls. Tokens
    of Rota and the passwords of URLs are masked.
    """
    lines = [line.rstrip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return ""
    return mask_text(_find_telling(lines).strip())[:LONGEST_ERROR]


def end_sentence(text: str) -> str:
    """The text with a full stop, unless it has one."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def tell_error(text: str | None) -> str:
    """An error as the end of a sentence."""
    return end_sentence(name_error(text) or "no error was told")


def show(instant: datetime, zone: tzinfo = UTC) -> str:
    """An instant as people read it: on the clock of a zone, and in UTC besides."""
    local, universal = instant.astimezone(zone), instant.astimezone(UTC)
    told = f"{local:%a %Y-%m-%d %H:%M:%S %Z}"
    if local.utcoffset() == timedelta(0):
        return told
    day = "%H:%M:%S" if local.date() == universal.date() else "%a %Y-%m-%d %H:%M:%S"
    return f"{told} ({universal.strftime(day)} UTC)"


def in_words(duration: timedelta) -> str:
    """The two largest units that matter: ``3 days 4 hours``, ``12 seconds``."""
    seconds = int(duration.total_seconds())
    parts: list[str] = []
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number, seconds = divmod(seconds, length)
        if number:
            parts.append(f"{number} {name}{'s' if number > 1 else ''}")
    return " ".join(parts[:2]) or "less than a second"


def named(job: Job) -> str:
    """A job as it is called in a sentence."""
    return f'job {job.id} ("{job.name}")'


def zone_of(job: Job) -> tzinfo:
    """The zone on whose clock the job recurs; UTC for one that does not, or in one unknown here."""
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
    "called off",
    "did not run",
    "will not run",
    "running",
    "stalled",
    "due",
    "will run",
    "waits",
    "not known",
]
"""What has become of the job, or will, in a word.

``due``: nothing but a free worker, or what the reasons name, keeps it from running now.
``will run``: at a time that is known. ``waits``: for other jobs, or to be resumed. ``did not run``
and ``not known`` are said of an instant only: for the latter, too little of the past is kept.
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
    """One thing that explains: in words, and for programs.

    ``at`` is the instant that it speaks of, ``until`` when it ends; ``job_id`` another job that it
    names, ``who`` somebody.
    """

    code: ReasonCode
    text: str
    at: datetime | None = None
    until: datetime | None = None
    job_id: JobId | None = None
    who: str | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in a word and in a sentence, and the reasons, the most telling first.

    ``next_at`` is when something is known to happen next: the job starts, or may be asked about
    again. ``at`` is the instant that was asked about, if one was.
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
    """The answer, the sentence that gives it, and the reasons, the most telling first."""

    answer: Answer
    sentence: str
    reasons: list[Reason]
    next_at: datetime | None = None
