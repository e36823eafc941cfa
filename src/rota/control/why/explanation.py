"""What is told to somebody who asks why."""

from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from rota.jobs import JobId, JobStatus

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
