"""What a poller publishes about itself, for pages, metrics and ``why``."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock, keeps_real_time
from rota.clock.system import timeout_after
from rota.errors import RotaError, describe_error
from rota.fleet.identity import make_process_name
from rota.fleet.presence import (
    POLLERS,
    SHOWN_EVERY,
    PolledDocument,
    PollerPresence,
    SignOfLife,
    sweep_gone,
)
from rota.poller.protocol import PolledJob
from rota.stores.protocol import DocumentStore

GATHERED_FOR = timedelta(seconds=1)
"""The shortest time between two signs, however many documents are processed."""

SHOWN_VIRTUALLY = timedelta(hours=6)
"""How often an idle poller shows its sign under a virtual clock."""

MOST_FAILURES = 20
LONGEST_ERROR = 500


class Report:
    """Counts what one poller does, and shows it in a store, if it has one."""

    def __init__(self, store: DocumentStore | None, source: str, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._is_changed = asyncio.Event()
        self._failures: deque[PolledDocument] = deque(maxlen=MOST_FAILURES)
        self._every = SHOWN_EVERY if keeps_real_time(clock) else SHOWN_VIRTUALLY
        now = clock.now()
        self._presence = PollerPresence(
            id=make_process_name(),
            host=socket.gethostname(),
            pid=os.getpid(),
            source=source,
            started_at=now,
            seen_at=now,
            gone_after=4 * self._every,
        )

    @contextmanager
    def holding(self, job: PolledJob, until: datetime) -> Iterator[None]:
        """The poller processes the job inside."""
        document = PolledDocument(id=str(job.id), since=self._clock.now(), until=until)
        self._note(replace(self._presence, holds=document))
        try:
            yield
        except BaseException as error:
            text = describe_error(error)[:LONGEST_ERROR]
            self._failures.appendleft(replace(document, error=text))
            count = self._presence.failed_count + 1
            self._note(replace(self._presence, holds=None, failed_count=count))
            raise
        self._forget_failure(document.id)
        count = self._presence.processed_count + 1
        self._note(replace(self._presence, holds=None, processed_count=count))

    @asynccontextmanager
    async def published(self) -> AsyncIterator[None]:
        """Show the report while the context lasts. The store's errors do not reach the poller."""
        if self._store is None:
            yield
            return
        sign = SignOfLife(self._store, POLLERS, self._presence.id)
        showing = asyncio.create_task(self._show(self._store, sign), name="rota poller report")
        try:
            yield
        finally:
            showing.cancel()
            await asyncio.wait({showing})
            await sign.try_to_withdraw(self._clock)

    async def _show(self, store: DocumentStore, sign: SignOfLife) -> None:
        with suppress(RotaError):
            await sweep_gone(store, POLLERS, self._clock.now())
        while True:
            self._is_changed.clear()
            now, failures = self._clock.now(), tuple(self._failures)
            shown = replace(self._presence, seen_at=now, failures=failures)
            with suppress(RotaError):
                await sign.show(msgspec.json.encode(shown))
            await self._clock.sleep(GATHERED_FOR)
            with suppress(TimeoutError):
                async with timeout_after(self._clock, self._every):
                    await self._is_changed.wait()

    def _note(self, presence: PollerPresence) -> None:
        self._presence = presence
        self._is_changed.set()

    def _forget_failure(self, document_id: str) -> None:
        left = [it for it in self._failures if it.id != document_id]
        self._failures = deque(left, maxlen=MOST_FAILURES)
