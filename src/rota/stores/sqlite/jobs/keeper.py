"""Extends leases from another thread, also while the event loop does not turn."""

from collections.abc import Sequence
from datetime import datetime

import apsw

from rota.stores.protocol import HeldLease
from rota.stores.sqlite.connection import SqliteSettings, open_beside, transaction
from rota.stores.sqlite.jobs.leasing.leases import extend_leases
from rota.stores.sqlite.translation import translated
from rota.triggers.zone import to_utc


class Keeper:
    """See ``LeaseKeeper``; its connection is opened by the thread that uses it."""

    def __init__(self, settings: SqliteSettings) -> None:
        self._settings = settings
        self._connection: apsw.Connection | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """Let leases last longer; False for each that is lost."""
        until = to_utc(until, "until")
        to_utc(now, "now")
        with translated(self._settings.path):
            if self._connection is None:
                self._connection = open_beside(self._settings)
            with transaction(self._connection):
                return extend_leases(self._connection, held, until)

    def close(self) -> None:
        """Close what was opened."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
