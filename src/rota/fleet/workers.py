"""The workers that run on a store, as their signs of life describe them."""

from datetime import datetime, timedelta

import msgspec

from rota.fleet.presence import sweep
from rota.stores.protocol import Document, DocumentStore

WORKERS = "workers"
"""The collection; a key is the name of a worker."""

SHOWN_EVERY = timedelta(seconds=15)
GONE_AFTER = timedelta(seconds=60)
"""A worker that has not been seen for this long is gone."""


class WorkerPresence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker, as it describes itself. ``queues`` and ``tenants`` are None for all.

    ``labels`` are the version labels that it offers. ``notifying`` are those of its kinds that
    notify people. ``batch``, ``poll_ms`` and ``lease_ms`` are its settings; a worker over HTTP has
    none. ``gone_after`` is how long its sign of life lasts.
    """

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
    gone_after: timedelta = GONE_AFTER
    labels: tuple[str, ...] = ()
    notifying: tuple[str, ...] = ()
    batch: int | None = None
    poll_ms: int | None = None
    lease_ms: int | None = None

    def is_gone(self, now: datetime) -> bool:
        return self.seen_at + self.gone_after <= now


async def list_workers(store: DocumentStore, now: datetime) -> list[WorkerPresence]:
    """The workers that run on this store; the one that has run longest comes first."""
    found = [_decode(document) async for page in store.scan(WORKERS) for document in page]
    present = [it for it in found if it is not None and not it.is_gone(now)]
    return sorted(present, key=lambda presence: (presence.started_at, presence.id))


async def sweep_workers(store: DocumentStore, now: datetime) -> int:
    """Remove the signs of workers that are gone; returns how many."""

    def is_gone(document: Document) -> bool:
        presence = _decode(document)
        return presence is not None and presence.is_gone(now)

    return await sweep(store, WORKERS, is_gone)


def _decode(document: Document) -> WorkerPresence | None:
    """None for a document that another version wrote and this one cannot read."""
    try:
        return msgspec.json.decode(document.body, type=WorkerPresence)
    except msgspec.DecodeError:
        return None
