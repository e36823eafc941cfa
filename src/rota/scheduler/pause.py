"""The pause of a task: who paused it, when and why, and which occurrences it skips. Pure."""

from datetime import UTC, datetime

import msgspec

from rota.scheduler.task import Instant

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class TaskPause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A pause. One that has ended is kept until the task starts again.

    Occurrences up to ``resumed_at`` need no run.
    """

    at: Instant = _LONG_AGO
    who: str = ""
    why: str = ""
    resumed_at: Instant | None = None

    @property
    def is_active(self) -> bool:
        return self.resumed_at is None

    def end(self, now: datetime) -> "TaskPause":
        return msgspec.structs.replace(self, resumed_at=now)

    def skips(self, occurrence_at: datetime | None) -> bool:
        """Whether the task was resumed later than this, without catching up."""
        if occurrence_at is None or self.resumed_at is None:
            return False
        return occurrence_at <= self.resumed_at
