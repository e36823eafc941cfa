"""The pollers that report to a store, as their signs of life describe them."""

from datetime import datetime, timedelta

import msgspec

from rota.fleet.presence import sweep
from rota.fleet.workers import GONE_AFTER
from rota.stores.protocol import Document, DocumentStore

POLLERS = "pollers"
"""The collection; a key is the name of a poller."""


class PolledDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document that a poller has locked until ``until``, and with what error it failed, if any.

    It is due again when the lock ends.
    """

    id: str
    since: datetime
    until: datetime
    error: str | None = None


class PollerPresence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A poller, as it describes itself. The counts are those since it started.

    ``source`` is what it polls. ``holds`` is the document that it processes now. ``failures`` are
    its last ones, the latest first.
    """

    id: str
    host: str
    pid: int
    source: str
    started_at: datetime
    seen_at: datetime
    processed_count: int = 0
    failed_count: int = 0
    holds: PolledDocument | None = None
    failures: tuple[PolledDocument, ...] = ()
    gone_after: timedelta = GONE_AFTER

    def is_gone(self, now: datetime) -> bool:
        return self.seen_at + self.gone_after <= now

    def find(self, document_id: str) -> PolledDocument | None:
        """The document with that id, if the poller has it now or failed to process it."""
        held = (self.holds, *self.failures)
        return next((it for it in held if it is not None and it.id == document_id), None)


async def list_pollers(store: DocumentStore, now: datetime) -> list[PollerPresence]:
    """The pollers that report to this store; the one that has run longest comes first."""
    found = [_decode(document) async for page in store.scan(POLLERS) for document in page]
    present = [it for it in found if it is not None and not it.is_gone(now)]
    return sorted(present, key=lambda presence: (presence.started_at, presence.id))


async def sweep_pollers(store: DocumentStore, now: datetime) -> int:
    """Remove the signs of pollers that are gone; returns how many."""

    def is_gone(document: Document) -> bool:
        presence = _decode(document)
        return presence is not None and presence.is_gone(now)

    return await sweep(store, POLLERS, is_gone)


def _decode(document: Document) -> PollerPresence | None:
    """None for a document that another version wrote and this one cannot read."""
    try:
        return msgspec.json.decode(document.body, type=PollerPresence)
    except msgspec.DecodeError:
        return None
