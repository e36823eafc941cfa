"""The smallest poller: jobs that are due now, later, every hour, and once.

The jobs are in a store of Rota, here a file of SQLite. Here the clock is virtual, so an hour passes
at once; in your own program leave ``clock`` out.

It prints:

    started
    12:00 say hello
    12:00 every hour
    12:00 once, then remove it
    nothing to do
    12:30 half an hour later
    nothing to do
    13:00 every hour
    nothing to do
    stopped
    left: 3 jobs
"""

import asyncio
from datetime import UTC, datetime, timedelta

from rota import Poller, open_store
from rota.poller import PolledJob, PolledJobs
from rota.testing import VirtualClock

NOON = datetime(2027, 6, 4, 12, tzinfo=UTC)


async def main() -> None:
    clock = VirtualClock(NOON)
    async with await open_store("sqlite:///basic.db") as store:
        jobs = PolledJobs(store, clock=clock)
        await jobs.add({"say": "say hello"})
        await jobs.add({"say": "every hour"}, interval="0 * * * *")
        await jobs.add({"say": "once, then remove it"}, auto_remove=True)
        await jobs.add({"say": "half an hour later"}, sleep_until=NOON + timedelta(minutes=30))

        def process(job: PolledJob) -> None:
            print(f"{clock.now():%H:%M} {job.payload['say']}")

        poller = Poller(
            jobs,
            on_start=lambda: print("started"),
            on_document=process,
            on_idle=lambda: print("nothing to do"),
            on_error=lambda error: print("failed:", error),
            on_stop=lambda: print("stopped"),
            idle_delay=timedelta(seconds=10),
            clock=clock,
        )
        async with poller:
            await clock.advance(timedelta(hours=1))
        print("left:", sum([len(page) async for page in jobs.scan()]), "jobs")


if __name__ == "__main__":
    asyncio.run(main())
