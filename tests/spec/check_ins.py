"""Fortnightly check-ins of many tenants: who has them, when they are due, and when not to send.

Everything here is worked out with a calendar and the zones alone; no trigger and no gate is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

FIRST_DAY = date(2027, 1, 4)
"""A Monday."""

START = datetime.combine(FIRST_DAY, time(6), UTC)
LONDON, SYDNEY = ZoneInfo("Europe/London"), ZoneInfo("Australia/Sydney")
NEW_YORK, SANTIAGO = ZoneInfo("America/New_York"), ZoneInfo("America/Santiago")
KOLKATA = ZoneInfo("Asia/Kolkata")
ZONES = (LONDON, NEW_YORK, SYDNEY, SANTIAGO, KOLKATA)
"""Two of them on the southern half of the earth; the last never changes its clocks."""

EVENING = time(18)
NIGHT = {LONDON: time(1, 30), SANTIAGO: time(0, 30)}
"""A time of day that the clocks skip in spring; half past two elsewhere."""

WEEK, FORTNIGHT = timedelta(days=7), timedelta(days=14)
_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@dataclass(frozen=True)
class Hush:
    """When a tenant's people are not to be disturbed: from ``start`` to ``end`` in ``zone``."""

    start: time
    end: time
    zone: ZoneInfo

    def covers(self, instant: datetime) -> bool:
        shown = instant.astimezone(self.zone).time()
        if self.start < self.end:
            return self.start <= shown < self.end
        return shown >= self.start or shown < self.end


@dataclass(frozen=True)
class Tenant:
    """One of many, with the day and the time of its first check-in."""

    name: str
    zone: ZoneInfo
    day: date
    at: time
    hush: Hush | None
    pair_count: int = 1

    @property
    def pairs(self) -> list[str]:
        return [f"{self.name} pair {number}" for number in range(self.pair_count)]

    @property
    def rrule(self) -> str:
        clock = f"BYHOUR={self.at.hour};BYMINUTE={self.at.minute};BYSECOND=0"
        return f"FREQ=WEEKLY;INTERVAL=2;BYDAY={_WEEKDAYS[self.day.weekday()]};{clock}"

    @property
    def start_from(self) -> datetime:
        return max(START, datetime.combine(self.day, time(), self.zone))

    def expect(self, end: datetime) -> Iterator[datetime]:
        """Every check-in up to ``end``, by counting days.

        What the wall clock leaves out comes an hour later; of what it shows twice, the first.
        """
        day = self.day
        while (at := datetime.combine(day, self.at, self.zone).astimezone(UTC)) <= end:
            yield at
            day += FORTNIGHT

    def count_skipped(self, end: datetime) -> int:
        """How many of them are at a time that no clock shows."""
        return sum(at.astimezone(self.zone).time() != self.at for at in self.expect(end))

    def count_shown_twice(self, end: datetime) -> int:
        """How many of them are at a time that the clock shows again an hour later."""
        return sum(
            wall.replace(fold=1).utcoffset() != wall.utcoffset() and wall.time() == self.at
            for wall in (at.astimezone(self.zone) for at in self.expect(end))
        )


@dataclass(frozen=True)
class Closure:
    """Nothing of the tenant, or of anybody when there is none, starts from ``start`` to ``end``."""

    start: datetime
    end: datetime
    tenant: str | None = None

    def covers(self, tenant: str, instant: datetime) -> bool:
        return self.tenant in {None, tenant} and self.start <= instant < self.end


def cast_tenants(count: int) -> list[Tenant]:
    """Tenants of all zones: most check in on a Monday evening, every fifth on a Sunday night."""
    return [_cast(number) for number in range(count)]


def _cast(number: int) -> Tenant:
    zone, turn = ZONES[number % len(ZONES)], number // len(ZONES)
    is_nightly = turn % 5 == 4
    first_day = FIRST_DAY + (timedelta(days=6) if is_nightly else timedelta(0))
    hushes = (
        None,
        Hush(time(17, 30), time(19), zone),
        Hush(time(21), time(8), LONDON),
        Hush(time(0, 15), time(9), zone),
    )
    return Tenant(
        name=f"guild-{number:02}",
        zone=zone,
        day=first_day + (turn % 2) * WEEK,
        at=NIGHT.get(zone, time(2, 30)) if is_nightly else EVENING,
        hush=hushes[(number % len(ZONES) + turn) % len(hushes)],
        pair_count=2 if turn == 0 else 1,
    )
