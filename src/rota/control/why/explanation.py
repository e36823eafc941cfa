"""What is told to somebody who asks why."""

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

import msgspec

from rota.jobs import Job, JobId, JobStatus

Answer = Literal[
    "ran", "failed", "called off", "will not run", "running", "stalled", "due", "will run", "waits"
]
"""What has become of the job, or will, in a word.

``due``: nothing but a free worker, or what the reasons name, keeps it from running now.
``will run``: at a time that is known. ``waits``: for other jobs, or to be resumed.
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
    again.
    """

    job_id: JobId
    status: JobStatus
    answer: Answer
    sentence: str
    reasons: tuple[Reason, ...]
    next_at: datetime | None = None
    asked_at: datetime

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"- {reason.text}" for reason in self.reasons)])


def show(instant: datetime, zone: tzinfo = UTC) -> str:
    """An instant as people read it, on the clock of a zone."""
    return f"{instant.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}"


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
