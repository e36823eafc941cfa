"""Fixed intervals from an anchor, in elapsed time: no zone, no DST."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError
from rota.triggers.zone import nearest_utc


@dataclass(frozen=True, slots=True)
class Interval:
    """The anchor and the instants after it at equal distances, found in constant time."""

    every: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        if self.every <= timedelta(0):
            raise InvalidInputError(
                f"every must be longer than zero, got {self.every}",
                {"field": "every", "value": self.every},
            )
        object.__setattr__(self, "anchor", to_utc(self.anchor, "anchor"))

    def next_after(self, instant: datetime, /) -> datetime | None:
        """The first occurrence strictly after ``instant``; None beyond the calendar."""
        elapsed = nearest_utc(instant) - self.anchor
        if elapsed < timedelta(0):
            return self.anchor
        try:
            return self.anchor + (elapsed // self.every + 1) * self.every
        except OverflowError:
            return None

    def previous_at(self, instant: datetime, /) -> datetime | None:
        """The last occurrence at or before ``instant``; None before the anchor."""
        elapsed = nearest_utc(instant) - self.anchor
        if elapsed < timedelta(0):
            return None
        return self.anchor + elapsed // self.every * self.every

    def describe(self) -> str:
        anchor = self.anchor.replace(tzinfo=None).isoformat(" ")
        return f"Every {describe_duration(self.every)} since {anchor} UTC"


def describe_duration(duration: timedelta) -> str:
    """A length of time after the word "every": "minute", "5 minutes", "1 hour 30 minutes".

    Hours are the longest unit: the days of a calendar are not all equally long.
    """
    minutes, rest = divmod(duration, timedelta(minutes=1))
    counts = (
        (minutes // 60, "hour"),
        (minutes % 60, "minute"),
        (rest.total_seconds(), "second"),
    )
    parts = [f"{count:g} {unit}" + "s" * (count != 1) for count, unit in counts if count]
    return parts[0].removeprefix("1 ") if len(parts) == 1 else " ".join(parts)
