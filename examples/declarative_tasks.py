"""A service stops for three days; its tasks continue where they stopped.

A service declares all of its tasks on every start; the store keeps their history. Here the clock is
virtual and the store is in memory, so a week passes at once. In your own service, leave ``clock``
out and open ``sqlite:///newsroom.db``.

It prints:

    Mon 09:00 digest fails
    Mon 09:05 digest is sent
    Tue 09:00 digest is sent
    (stopped from Tuesday noon to Friday noon: two digests are missed)
    Fri 12:00 digest is sent
    Sat 03:00 old sessions are deleted
"""

import asyncio
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from rota import Scheduler, open_store
from rota.testing import VirtualClock

PARIS = ZoneInfo("Europe/Paris")
MONDAY = datetime(2027, 6, 7, 8, 0, tzinfo=PARIS)


class Newsroom:
    """The callbacks of the tasks; the very first digest fails."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._has_failed = False

    async def send_digest(self) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._say("digest fails")
            raise ConnectionError("no route to the mail server")
        self._say("digest is sent")

    async def delete_old_sessions(self) -> None:
        self._say("old sessions are deleted")

    def _say(self, what: str) -> None:
        print(f"{self._clock.now().astimezone(PARIS):%a %H:%M} {what}")


async def main() -> None:
    clock = VirtualClock(MONDAY)
    newsroom = Newsroom(clock)
    tasks = [
        ("digest", "0 9 * * 1-5", newsroom.send_digest, timedelta(minutes=5)),
        ("clean-up", "0 3 * * 6", newsroom.delete_old_sessions, timedelta(hours=1)),
    ]
    async with await open_store("memory://") as store:
        first = Scheduler(store, clock=clock, zone=PARIS)
        await first.initialize(tasks)
        await clock.advance(timedelta(days=1, hours=4))
        await first.stop()

        print("(stopped from Tuesday noon to Friday noon: two digests are missed)")
        await clock.advance(timedelta(days=3))

        second = Scheduler(store, clock=clock, zone=PARIS)
        await second.initialize(tasks)
        await clock.advance(timedelta(days=1))
        await second.stop()


if __name__ == "__main__":
    asyncio.run(main())
