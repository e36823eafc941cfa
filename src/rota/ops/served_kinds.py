"""Which kinds of jobs are served now, and whether a payload fits its kind."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from rota.clock.protocol import Clock
from rota.errors import InvalidArgumentsError, InvalidJobError
from rota.fleet.workers import WorkerPresence, list_workers
from rota.jobs import Job
from rota.ops.reasons import ANY_KIND
from rota.stores.protocol import DocumentStore

LOOKED_EVERY = timedelta(seconds=5)
"""The signs of life of workers are read at most this often."""

CheckPayload: TypeAlias = Callable[[Any], object]
"""Raises InvalidArgumentsError if a payload does not fit."""


class ServedKinds:
    """The kinds that running workers serve, and those whose payloads this process can check."""

    def __init__(
        self, store: DocumentStore, clock: Clock, checks: Mapping[str, CheckPayload] | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._checks = checks or {}
        self._workers: Sequence[WorkerPresence] = ()
        self._read_at: datetime | None = None

    def checks(self, kind: str) -> bool:
        """Whether payloads of this kind are checked here."""
        return kind in self._checks

    def check(self, kind: str, payload: Any) -> None:
        """Refuse a payload that does not fit its kind; the error names the path of the field."""
        check = self._checks.get(kind)
        if check is None:
            return
        try:
            check(payload)
        except InvalidArgumentsError as error:
            field = "payload" if error.argument is None else f"payload.{error.argument}"
            raise InvalidJobError(field, error.reason) from error

    async def list(self) -> frozenset[str]:
        """The kinds that running workers serve, as of a few seconds ago."""
        return frozenset(kind for worker in await self._list_workers() for kind in worker.kinds)

    async def list_notifying(self) -> frozenset[str]:
        """The kinds that notify people, as running workers say."""
        return frozenset(kind for worker in await self._list_workers() for kind in worker.notifying)

    async def _list_workers(self) -> Sequence[WorkerPresence]:
        now = self._clock.now()
        if self._read_at is None or not now - LOOKED_EVERY < self._read_at <= now:
            self._workers = await list_workers(self._store, now)
            self._read_at = now
        return self._workers

    async def warn(self, job: Job) -> str | None:
        """A warning, in ASCII and without quotes, if no running worker serves the job's kind."""
        served = await self.list()
        if job.kind in served or ANY_KIND in served or job.status.is_terminal:
            return None
        kind = ascii(job.kind).replace('"', "'")
        return f"No running worker serves kind {kind}: the job waits until one does."
