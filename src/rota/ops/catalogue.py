"""The catalogue of kinds: what the apps that are served say about their tasks.

A process that runs an app publishes its tasks as documents of the store. So every other process
knows their payloads: the API validates them, and the pages build forms from them.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from rota.stores.protocol import Document, DocumentStore, DocumentWrite

KINDS = "kinds"
"""The collection; the key of a document is the kind."""


READ_EVERY = timedelta(seconds=5)
"""How old may be what ``Catalogue`` knows."""


class KindEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of job: JSON Schemas of its payload and result, and the defaults of its jobs."""

    schema: dict[str, Any]
    result: dict[str, Any] = {}
    queue: str = "default"
    priority: int = 5
    notifies: bool = False
    doc: str = ""


_encode = msgspec.json.Encoder().encode  # the parameters stay in the order of the signature
_decode = msgspec.json.Decoder(KindEntry).decode


async def publish_kinds(store: DocumentStore, entries: Mapping[str, KindEntry]) -> None:
    """Write the entries that are new or have changed. Others of the catalogue stay."""
    known = await store.read(KINDS, [*entries]) if entries else {}
    writes = [
        DocumentWrite(KINDS, kind, _version(known.get(kind)), body)
        for kind, body in ((kind, _encode(entry)) for kind, entry in entries.items())
        if kind not in known or known[kind].body != body
    ]
    if writes:
        await store.write_each(writes)  # a stale one: another process publishes the same app


async def read_kinds(store: DocumentStore) -> dict[str, KindEntry]:
    """The whole catalogue, by kind. Entries that a later version wrote differently are left out."""
    found: dict[str, KindEntry] = {}
    async for page in store.scan(KINDS):
        for document in page:
            entry = _read(document)
            if entry is not None:
                found[document.key] = entry
    return found


async def read_kind(store: DocumentStore, kind: str) -> KindEntry | None:
    """What is known about one kind."""
    found = await store.read(KINDS, [kind])
    return _read(found[kind]) if kind in found else None


class Catalogue:
    """Which kinds notify people, as the apps that are served say; read every few seconds."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._notifying: frozenset[str] = frozenset()
        self._read_at: datetime | None = None

    async def list_notifying(self, now: datetime) -> frozenset[str]:
        """The kinds whose jobs notify people."""
        if self._read_at is None or not now - READ_EVERY < self._read_at <= now:
            kinds = await read_kinds(self._store)
            self._notifying = frozenset(kind for kind, each in kinds.items() if each.notifies)
            self._read_at = now
        return self._notifying


def _read(document: Document) -> KindEntry | None:
    try:
        return _decode(document.body)
    except msgspec.MsgspecError:
        return None


def _version(document: Document | None) -> int | None:
    return None if document is None else document.version
