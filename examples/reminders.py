"""Check-ins every second Monday at six in the evening, for communities in three zones.

London is in maintenance. New York's handler fails after its message has gone out, and the second
attempt does not send it again. A reminder in the middle of Sydney's night waits for the morning.
Here the clock is virtual and the store is in memory, so the day passes at once. In your own
service, leave ``clock`` out and open ``postgresql://user@host/database``.

It prints:

    Mon 18:00 Australia/Sydney: check-in of pair 1
    Tue 07:00 Australia/Sydney: meeting 5 is tomorrow
    Mon 20:30 Europe/London: check-in of pair 1
    Mon 18:00 America/New_York: check-in of pair 1
    Mon 18:00 America/New_York: attempt 1 fails
    Mon 18:01 America/New_York: attempt 2 finds it sent
    next: Mon 05 Apr 18:00 Europe/London = 17:00 UTC
"""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rota import Context, Worker, WorkerSettings, open_store
from rota.rail import Rail
from rota.stores.opened import OpenStore
from rota.testing import VirtualClock

MONDAY = datetime(2027, 3, 22, 6, 0, tzinfo=UTC)
FORTNIGHTLY = "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18;BYMINUTE=0;BYSECOND=0"
ZONES = {
    "guild-1": ZoneInfo("Europe/London"),
    "guild-2": ZoneInfo("America/New_York"),
    "guild-3": ZoneInfo("Australia/Sydney"),
}


class Messenger:
    """The handlers. They print wall times in the tenant's zone."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def check_in(self, ctx: Context) -> None:
        is_sent_now = False

        def post() -> None:
            nonlocal is_sent_now
            is_sent_now = True
            self._say(ctx, f"check-in of pair {ctx.payload['pairId']}")

        await ctx.once(ctx.effect_key, post)
        if not is_sent_now:
            self._say(ctx, f"attempt {ctx.attempt} finds it sent")
        if ctx.tenant == "guild-2" and ctx.attempt == 1:
            self._say(ctx, "attempt 1 fails")
            raise ConnectionError("no route to the books")

    async def remind(self, ctx: Context) -> None:
        text = f"meeting {ctx.payload['meetingId']} is tomorrow"
        await ctx.once(ctx.effect_key, lambda: self._say(ctx, text))

    def _say(self, ctx: Context, what: str) -> None:
        zone = ZONES[ctx.tenant]
        print(f"{self._clock.now().astimezone(zone):%a %H:%M} {zone.key}: {what}")


async def schedule(store: OpenStore, clock: VirtualClock) -> list[Rail]:
    rails = [Rail(store, tenant, clock=clock) for tenant in ZONES]
    for rail, zone in zip(rails, ZONES.values(), strict=True):
        await rail.schedule_recurring("check-in", {"pairId": 1}, rrule=FORTNIGHTLY, tz=zone)
        await rail.set_quiet_hours("22:00", "07:00", zone)
    await rails[0].set_maintenance(True, until=MONDAY.replace(hour=20, minute=30), reason="move")
    at_midnight = datetime(2027, 3, 23, 0, 0, tzinfo=ZONES["guild-3"])
    await rails[2].schedule_once("remind", {"meetingId": 5}, run_at=at_midnight)
    return rails


async def main() -> None:
    clock = VirtualClock(MONDAY)
    messenger = Messenger(clock)
    handlers = {"check-in": messenger.check_in, "remind": messenger.remind}
    async with await open_store("memory://") as store:
        rails = await schedule(store, clock)
        worker = Worker(
            store,
            handlers,
            clock=clock,
            notifies=handlers,
            settings=WorkerSettings(poll_for=timedelta(hours=1)),
        )
        running = asyncio.create_task(worker.run())
        await clock.advance(timedelta(hours=18))
        worker.stop()
        await clock.run(running)

        (waiting,) = (await rails[0].list(state="queued")).items
        at, zone = waiting.run_at, ZONES["guild-1"]
        print(f"next: {at.astimezone(zone):%a %d %b %H:%M} {zone.key} = {at:%H:%M} UTC")


if __name__ == "__main__":
    asyncio.run(main())
