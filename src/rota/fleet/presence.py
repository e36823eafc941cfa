"""Signs of life: each worker and each poller keeps one document in the store that describes it."""

from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from rota.clock.protocol import Clock
from rota.clock.system import timeout_after
from rota.errors import RotaError
from rota.stores.documents import all_documents, decode_body, find_document, remove_documents
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

WORKERS = "workers"
"""The collection of the workers; a key is the name of a worker."""

POLLERS = "pollers"
"""The collection of the pollers; a key is the name of a poller."""

SHOWN_EVERY = timedelta(seconds=15)
GONE_AFTER = timedelta(seconds=60)
"""A process that has not been seen for this long is gone."""

WITHDRAWN_WITHIN = timedelta(seconds=1)
"""How long a process that stops waits for the removal of its sign; otherwise it is swept later."""

AnyPresence = TypeVar("AnyPresence", bound="Presence")


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process, as it describes itself. ``gone_after`` is how long its sign of life lasts."""

    id: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    gone_after: timedelta = GONE_AFTER

    def is_gone(self, now: datetime) -> bool:
        return self.seen_at + self.gone_after <= now


class WorkerPresence(Presence, frozen=True, kw_only=True, omit_defaults=True):
    """A worker, as it describes itself. ``queues`` and ``tenants`` are None for all.

    ``labels`` are the version labels that it offers. ``notifying`` are those of its kinds that
    notify people. ``batch``, ``poll_ms`` and ``lease_ms`` are its settings; ``poll_ms`` is None for
    a worker over HTTP whose requests do not wait.
    """

    queues: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    kinds: tuple[str, ...]
    concurrency: int
    version: str
    labels: tuple[str, ...] = ()
    notifying: tuple[str, ...] = ()
    batch: int | None = None
    poll_ms: int | None = None
    lease_ms: int | None = None


class PolledDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document that a poller has locked until ``until``, and with what error it failed, if any.

    It is due again when the lock ends.
    """

    id: str
    since: datetime
    until: datetime
    error: str | None = None


class PollerPresence(Presence, frozen=True, kw_only=True, omit_defaults=True):
    """A poller, as it describes itself. The counts are those since it started.

    ``source`` is what it polls. ``holds`` is the document that it processes now. ``failures`` are
    its last ones, the latest first.
    """

    source: str
    processed_count: int = 0
    failed_count: int = 0
    holds: PolledDocument | None = None
    failures: tuple[PolledDocument, ...] = ()

    def find(self, document_id: str) -> PolledDocument | None:
        """The document with that id, if the poller has it now or failed to process it."""
        held = (self.holds, *self.failures)
        return next((it for it in held if it is not None and it.id == document_id), None)


async def list_workers(store: DocumentStore, now: datetime) -> list[WorkerPresence]:
    """The workers that run on this store; the one that has run longest comes first."""
    return await _list_present(store, WORKERS, WorkerPresence, now)


async def list_pollers(store: DocumentStore, now: datetime) -> list[PollerPresence]:
    """The pollers that report to this store; the one that has run longest comes first."""
    return await _list_present(store, POLLERS, PollerPresence, now)


async def sweep_gone(store: DocumentStore, collection: str, now: datetime) -> int:
    """Remove the signs of the workers, or of the pollers, that are gone; returns how many."""

    def is_gone(document: Document) -> bool:
        presence = decode_body(document, Presence, None)
        return presence is not None and presence.is_gone(now)

    return await remove_documents(store, collection, is_gone)


async def _list_present(
    store: DocumentStore, collection: str, kind: type[AnyPresence], now: datetime
) -> list[AnyPresence]:
    found = [decode_body(it, kind, None) async for it in all_documents(store, collection)]
    present = [it for it in found if it is not None and not it.is_gone(now)]
    return sorted(present, key=lambda presence: (presence.started_at, presence.id))


class SignOfLife:
    """The document of one process in a collection that all its peers share."""

    def __init__(self, store: DocumentStore, collection: str, name: str) -> None:
        self._store = store
        self._collection = collection
        self._name = name
        self._version: int | None = None
        self._was_shown = False

    async def show(self, body: bytes) -> None:
        """Write the document, also if a peer removed it or the last answer was lost."""
        self._was_shown = True
        if not await self._write(body):
            await self._reread()
            await self._write(body)

    async def withdraw(self) -> None:
        """Remove the document, so that peers see at once that the process is gone."""
        if not self._was_shown:
            return
        await self._reread()
        if self._version is not None:
            await self._write(None)

    async def try_to_withdraw(self, clock: Clock) -> None:
        """Withdraw, unless the store does not answer soon: then peers remove the document."""
        with suppress(RotaError, TimeoutError):
            async with timeout_after(clock, WITHDRAWN_WITHIN):
                await self.withdraw()

    async def _write(self, body: bytes | None) -> bool:
        write = DocumentWrite(self._collection, self._name, self._version, body)
        (version,) = await self._store.write_each([write])
        if version is not None:
            self._version = version or None
        return version is not None

    async def _reread(self) -> None:
        found = await find_document(self._store, self._collection, self._name)
        self._version = None if found is None else found.version
