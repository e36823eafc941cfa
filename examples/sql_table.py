"""Poll a table of your own on PostgreSQL: reports that are sent when they are due.

The rows stay yours. The poller writes only the column with the date. Set DATABASE_URL to a
database, for example postgresql://localhost/shop. Two pollers share the table; each row goes to one
of them.
Here the clock is virtual, so two days pass at once; in your own program leave ``clock`` out.

It prints:

    Mon 08:00 send sales to ada@example.com
    Mon 09:30 send stock to grace@example.com
    Tue 08:00 send sales to ada@example.com
    next: sales on Wed 08:00
"""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import asyncpg  # pip install 'rota[postgres]'

from rota import Poller
from rota.poller import PolledJob
from rota.poller.sql import SqlTableStore
from rota.testing import VirtualClock

MONDAY = datetime(2027, 6, 7, tzinfo=UTC)
TABLE = """
CREATE TABLE reports (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    recipient text NOT NULL,
    is_active boolean NOT NULL DEFAULT true,
    next_at timestamptz,
    cron text,
    is_single boolean NOT NULL DEFAULT false
)
"""
ROW = "INSERT INTO reports (name, recipient, is_active, next_at, cron, is_single)"
ROWS = [
    ("sales", "ada@example.com", True, MONDAY + timedelta(hours=8), "0 8 * * MON-FRI", False),
    ("stock", "grace@example.com", True, MONDAY + timedelta(hours=9, minutes=30), None, True),
    ("costs", "alan@example.com", False, MONDAY, "@hourly", False),
]


async def main() -> None:
    clock = VirtualClock(MONDAY)
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1) as pool:
        await pool.execute(TABLE)
        await pool.executemany(f"{ROW} VALUES ($1, $2, $3, $4, $5, $6)", ROWS)
        reports = SqlTableStore(
            pool,
            "reports",
            id_column="number",
            sleep_until_column="next_at",
            interval_column="cron",
            auto_remove_column="is_single",
            condition="is_active AND recipient LIKE $1",
            parameters=["%@example.com"],
        )
        await reports.create_index()

        async def send(job: PolledJob) -> None:
            row = job.payload  # the whole row, as it was before it was locked
            print(f"{clock.now():%a %H:%M} send {row['name']} to {row['recipient']}")

        delay = timedelta(minutes=30)
        pollers = [
            Poller(reports, on_document=send, idle_delay=delay, clock=clock) for _ in range(2)
        ]
        async with pollers[0], pollers[1]:
            await clock.advance(timedelta(days=2))
        rows = await pool.fetch("SELECT name, next_at FROM reports WHERE is_active")
        print("next:", *(f"{row['name']} on {row['next_at']:%a %H:%M}" for row in rows))


if __name__ == "__main__":
    asyncio.run(main())
