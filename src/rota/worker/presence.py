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
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
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
    """Keeps the document of one worker, until cancelled; then removes it.

    Whatever goes wrong with that, the worker never hears of it: the next sign may be written again.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._store = surroundings.store
        self._started_at = surroundings.clock.now()
        self._version = _read_version()
        self._expected: int | None = None

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
                    await self.withdraw()

    async def _try_to_show(self, *, is_sweeping: bool) -> None:
        try:
            await self.show()
            if is_sweeping:
                await sweep(self._store, self._surroundings.clock.now())
        except RotaError:
            pass  # whoever needs the store for the work itself will tell of it
        except Exception:
            logger.exception("A worker could not say that it is there")

    async def show(self) -> None:
        """Write that this worker is there now."""
        body = msgspec.json.encode(self._describe())
        if not await self._write(body):  # swept meanwhile, or written without an answer
            await self._reread()
            await self._write(body)

    async def withdraw(self) -> None:
        """Remove the document, if there is one."""
        await self._reread()
        if self._expected is not None:
            await self._write(None)

    async def _write(self, body: bytes | None) -> bool:
        write = DocumentWrite(WORKERS, self._surroundings.owner, self._expected, body)
        (written,) = await self._store.write_each([write])
        if written is not None:
            self._expected = written or None
        return written is not None

    async def _reread(self) -> None:
        name = self._surroundings.owner
        document = (await self._store.read(WORKERS, [name])).get(name)
        self._expected = None if document is None else document.version

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


async def sweep(store: DocumentStore, now: datetime) -> int:
    """Remove what is left of workers that are gone; how many there were."""
    removed_count = 0
    async for page in store.scan(WORKERS):
        gone = [
            DocumentWrite(WORKERS, document.key, document.version, None)
            for document in page
            if (presence := _decode(document)) is not None and presence.is_gone(now)
        ]
        if gone:
            removed_count += sum(it is not None for it in await store.write_each(gone))
    return removed_count


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
