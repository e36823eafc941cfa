"""A store as it is opened: documents, jobs and a clock in one."""

from datetime import datetime
from typing import Protocol, Self

from rota.stores.jobs import JobStore
from rota.stores.protocol import TransactionalStore


class OpenStore(TransactionalStore, JobStore, Protocol):
    """What ``open_store`` gives; left with ``async with``, it is closed."""

    async def read_clock(self) -> datetime | None:
        """The store's own clock, in UTC; None where it has none but the host's."""
        ...

    async def __aenter__(self) -> Self:
        """The store itself, already open."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close the store."""
        ...
