"""A keeper of leases: a synchronous client of its own, in the caller's thread."""

from collections.abc import Sequence
from datetime import datetime

from pymongo import MongoClient

from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.connection import open_thread_gateway
from rota.stores.mongo.gateway import Raw, ThreadGateway, run_through
from rota.stores.mongo.jobs.leasing.leases import extend_leases
from rota.stores.protocol import HeldLease
from rota.triggers.zone import to_utc


class MongoKeeper:
    """Extends leases while the store's own event loop may be busy."""

    def __init__(self, settings: MongoSettings) -> None:
        self._settings = settings
        self._opened: tuple[MongoClient[Raw], ThreadGateway] | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """As the store's own; the thread waits for the answer."""
        to_utc(now, "now")
        until = to_utc(until, "until")
        if self._opened is None:
            self._opened = open_thread_gateway(self._settings)
        return run_through(extend_leases(self._opened[1], held, until))

    def close(self) -> None:
        """Let the connections go."""
        if self._opened is not None:
            client, _ = self._opened
            self._opened = None
            client.close()
