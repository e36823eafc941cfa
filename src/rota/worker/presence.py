"""Which workers there are: each says so in a document of its own, again and again."""

import logging
import os
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version

import msgspec

from rota.clock.timeout import timeout_after
from rota.errors import RotaError
from rota.fleet.presence import SignOfLife, sweep
from rota.stores.protocol import Document, DocumentStore
from rota.worker.surroundings import Surroundings

WORKERS = "workers"
"""The collection; a key is the name of a worker."""

SHOWN_EVERY = timedelta(seconds=15)
GONE_AFTER = timedelta(seconds=60)
"""A worker that has not been seen for so long is there no more."""

SWEPT_EVERY = 4
"""After so many signs of its own, a worker removes those of others that are gone."""

LAST_WORD = timedelta(seconds=1)
"""How long the store may take to forget a worker that stops; otherwise it is swept later."""

logger = logging.getLogger("rota.worker")


class WorkerPresence(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it says of itself. ``queues`` and ``tenants`` are None when it takes any."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    kinds: tuple[str, ...]
    concurrency: int
    version: str
    started_at: datetime
    seen_at: datetime

    def is_gone(self, now: datetime) -> bool:
        return self.seen_at + GONE_AFTER <= now


async def list_workers(store: DocumentStore, now: datetime) -> list[WorkerPresence]:
    """The workers that run on this store, those first that have run for the longest time."""
    found = [presence async for page in store.scan(WORKERS) for presence in _read_page(page)]
    present = [presence for presence in found if not presence.is_gone(now)]
    return sorted(present, key=lambda presence: (presence.started_at, presence.id))


class Presence:
    """Shows that one worker is alive, until cancelled; then withdraws its sign.

    An error never reaches the worker: the next sign is written anyway.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._store = surroundings.store
        self._sign = SignOfLife(surroundings.store, WORKERS, surroundings.owner)
        self._started_at = surroundings.clock.now()
        self._version = _read_version()

    async def run(self) -> None:
        shown_count = 0
        try:
            while True:
                await self._try_to_show(is_sweeping=shown_count % SWEPT_EVERY == 0)
                shown_count += 1
                await self._surroundings.clock.sleep(SHOWN_EVERY)
        finally:
            with suppress(RotaError, TimeoutError):
                async with timeout_after(self._surroundings.clock, LAST_WORD):
                    await self._sign.withdraw()

    async def _try_to_show(self, *, is_sweeping: bool) -> None:
        try:
            await self._sign.show(msgspec.json.encode(self._describe()))
            if is_sweeping:
                await sweep_workers(self._store, self._surroundings.clock.now())
        except RotaError:
            pass  # the loops that need the store for their work report it
        except Exception:
            logger.exception("The worker could not show that it is alive")

    def _describe(self) -> WorkerPresence:
        settings = self._surroundings.settings
        return WorkerPresence(
            id=self._surroundings.owner,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=_sorted(settings.queues),
            tenants=_sorted(settings.tenants),
            kinds=tuple(sorted(self._surroundings.handlers)),
            concurrency=settings.concurrency,
            version=self._version,
            started_at=self._started_at,
            seen_at=self._surroundings.clock.now(),
        )


async def sweep_workers(store: DocumentStore, now: datetime) -> int:
    """Remove the signs of workers that are gone; returns how many."""

    def is_gone(document: Document) -> bool:
        presence = _decode(document)
        return presence is not None and presence.is_gone(now)

    return await sweep(store, WORKERS, is_gone)


def _read_page(page: Sequence[Document]) -> list[WorkerPresence]:
    read = (_decode(document) for document in page)
    return [presence for presence in read if presence is not None]


def _decode(document: Document) -> WorkerPresence | None:
    """What a worker of another version wrote may not be readable: then it is not shown."""
    try:
        return msgspec.json.decode(document.body, type=WorkerPresence)
    except msgspec.DecodeError:
        return None


def _sorted(names: Collection[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(names))


def _read_version() -> str:
    try:
        return version("rota")
    except PackageNotFoundError:  # run from its source
        return "unknown"
