"""What runs when no tasks are named: a sign of life, and a look after the store."""

from datetime import timedelta
from typing import Any

from rota.clock.protocol import Clock
from rota.errors import StoreError
from rota.scheduler.queries import read_tasks
from rota.stores.protocol import DocumentStore


def list_house_tasks(store: DocumentStore, clock: Clock) -> list[Any]:
    """Two registrations, which are safe to run on any store."""

    async def heartbeat() -> None:
        """Its start is the news: the board and the record show how punctual it was."""

    async def look_after_the_store() -> None:
        overview = await read_tasks(store, clock)
        if overview.unreadable:
            names = ", ".join(overview.unreadable)
            raise StoreError(f"records that cannot be read: {names}")

    return [
        ("heartbeat", "* * * * *", heartbeat, timedelta(seconds=10)),
        ("look-after-the-store", "0,15,30,45 * * * *", look_after_the_store, timedelta(minutes=1)),
    ]
