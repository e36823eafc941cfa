"""Workers over HTTP are seen among the others for as long as they keep asking."""

from contextlib import suppress
from datetime import datetime

import msgspec

from rota.control.leases.records import LeaseWish
from rota.control.why.holding import ANY_KIND
from rota.errors import RotaError
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.worker.presence import SHOWN_EVERY, WORKERS, WorkerPresence, sweep

HTTP = "http"
"""Stands for the host and the version of a worker of which neither is known."""

_MOST_KNOWN = 10_000
_LONGEST_KEY = 255


class Visibility:
    """Keeps the documents of workers that the desk has seen; nobody minds when it cannot."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._shown_at: dict[str, datetime] = {}

    async def show(self, tenant: str, wish: LeaseWish, now: datetime) -> None:
        """Note that the worker was here, unless that was noted a moment ago."""
        key = f"{HTTP}:{tenant}:{wish.worker}"[:_LONGEST_KEY]
        shown_at = self._shown_at.get(key)
        if shown_at is not None and shown_at <= now < shown_at + SHOWN_EVERY:
            return
        if len(self._shown_at) >= _MOST_KNOWN:
            self._shown_at.clear()
        self._shown_at[key] = now
        with suppress(RotaError):  # whoever needs the store for the work itself will tell of it
            await self._write(key, tenant, wish, now)
            if shown_at is None:
                await sweep(self._store, now)

    async def _write(self, key: str, tenant: str, wish: LeaseWish, now: datetime) -> None:
        document = (await self._store.read(WORKERS, [key])).get(key)
        presence = WorkerPresence(
            id=wish.worker,
            host=HTTP,
            pid=0,
            queues=None if wish.queues is None else tuple(sorted(wish.queues)),
            tenants=(tenant,),
            kinds=tuple(sorted(wish.kinds)) or (ANY_KIND,),
            concurrency=wish.limit,
            version=HTTP,
            started_at=_since(None if document is None else document.body, now),
            seen_at=now,
        )
        expected = None if document is None else document.version
        body = msgspec.json.encode(presence)
        await self._store.write_each([DocumentWrite(WORKERS, key, expected, body)])


def _since(body: bytes | None, now: datetime) -> datetime:
    """When it was first seen, unless it had gone meanwhile."""
    if body is None:
        return now
    try:
        known = msgspec.json.decode(body, type=WorkerPresence)
    except msgspec.DecodeError:
        return now
    return now if known.is_gone(now) else known.started_at
