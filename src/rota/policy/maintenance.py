"""Maintenance windows, in which nothing runs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rota.jobs.record import Job
from rota.policy.gates import OPEN, Closed, Verdict
from rota.policy.windows import refuse, require
from rota.triggers.zone import to_utc

RECHECK_FOR = timedelta(minutes=5)
"""How long a job waits for a gate that does not know when it opens."""

LONGEST_REASON = 500
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Closed to every job from ``from_at`` until just before ``until``.

    Without ``from_at`` it has always been closed. Without ``until`` it lasts until it is cleared:
    jobs recheck every ``RECHECK_FOR``. ``reason`` and ``who`` are for people.
    """

    until: datetime | None = None
    reason: str = ""
    who: str = ""
    from_at: datetime | None = None

    def __post_init__(self) -> None:
        for field in ("from_at", "until"):
            object.__setattr__(self, field, _read_instant(getattr(self, field), field))
        for field in ("reason", "who"):
            _check_text(getattr(self, field), field)
        if self.from_at is not None and self.until is not None and self.until <= self.from_at:
            raise refuse("until", "must be later than from_at")

    @property
    def told(self) -> str:
        """The reason stored with a job that is held back."""
        return f"maintenance: {self.reason}" if self.reason else "maintenance"

    def is_over(self, now: datetime) -> bool:
        return self.until is not None and self.until <= now

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - given by Gate
        """Closed during the window, for every job."""
        if self.is_over(now) or (self.from_at is not None and now < self.from_at):
            return OPEN
        if self.until is not None:
            return Closed(self.until, self.told)
        return Closed(recheck_after(now), self.told, is_recheck=True)


def recheck_after(now: datetime) -> datetime:
    try:
        return now + RECHECK_FOR
    except OverflowError:
        return _END_OF_TIME


def _read_instant(value: datetime | None, field: str) -> datetime | None:
    if value is None:
        return None
    try:
        return to_utc(require(datetime, value, field, "an instant"), field)
    except OverflowError as error:
        raise refuse(field, "must be an instant of the calendar") from error


def _check_text(value: object, field: str) -> None:
    text = require(str, value, field, "a text")
    if len(text) > LONGEST_REASON:
        raise refuse(field, f"must have at most {LONGEST_REASON} characters, got {len(text)}")
    if not text.isprintable():
        raise refuse(field, "must not hold control characters")
