"""When something is due: the one question every schedule answers."""

from datetime import datetime
from typing import Protocol


class Trigger(Protocol):
    """A schedule bound to everything it needs.

    Immutable and stateless: the same question always has the same answer.
    """

    def next_after(self, instant: datetime, /) -> datetime | None:
        """The first occurrence strictly after ``instant``, in UTC; None when there is none."""
        ...
