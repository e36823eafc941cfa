"""A year of an hourly loop, in the time it takes to run its code.

The loop below waits for every full hour in New York, as a service would. Under a virtual clock it
takes no real time: time jumps from one wake-up to the next, in the same order every time.

It prints:

    8760 wake-ups, from 2027-01-01 06:00 to 2028-01-01 05:00 UTC
    2027-03-14 has 23 of them, 2027-11-07 has 25
"""

import asyncio
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from rota import parse_cron
from rota.clock import Clock
from rota.testing import VirtualClock

NEW_YORK = ZoneInfo("America/New_York")
NEW_YEAR = datetime(2027, 1, 1, tzinfo=NEW_YORK)


async def wake_hourly(clock: Clock, woken: list[datetime]) -> None:
    """Wait for hour after hour until the task is cancelled."""
    hourly = parse_cron("0 * * * *")
    while True:
        await clock.sleep_until(hourly.next_after(clock.now(), NEW_YORK))
        woken.append(clock.now())


async def live_a_year() -> list[datetime]:
    clock = VirtualClock(NEW_YEAR)
    woken: list[datetime] = []
    loop = asyncio.create_task(wake_hourly(clock, woken))
    await clock.advance(timedelta(days=365))
    loop.cancel()
    return woken


if __name__ == "__main__":
    woken = asyncio.run(live_a_year())
    first, last = (f"{instant.astimezone(UTC):%Y-%m-%d %H:%M}" for instant in (woken[0], woken[-1]))
    print(f"{len(woken)} wake-ups, from {first} to {last} UTC")
    per_day = Counter(instant.astimezone(NEW_YORK).date() for instant in woken)
    spring, autumn = date(2027, 3, 14), date(2027, 11, 7)
    print(f"{spring} has {per_day[spring]} of them, {autumn} has {per_day[autumn]}")
