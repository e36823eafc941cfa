"""Jobs to be polled, in any store: the one job record, stored as documents.

A job sleeps while it is READY, until ``due_at``. It is locked while it is RUNNING, until its lease
ends, and then it is awake again. It never wakes again when it is COMPLETED.

Each job is a document under its id. While it can be locked, now or later, a second document has the
instant and the id as its key, so that the first of these is the next job. Both are always written
together. Workers do not see these jobs, and pollers do not see theirs.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from itertools import count
from secrets import randbits
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from rota.clock.protocol import Clock, to_utc
from rota.clock.system import SystemClock
from rota.errors import DamagedJobError, StaleVersionError
from rota.fleet.identity import make_process_name
from rota.jobs import (
    Job,
    JobId,
    JobRequest,
    JobStatus,
    Lease,
    Recurrence,
    admit_job,
    decode_job,
    encode_job,
    format_instant,
    make_job_id,
    normalize_job_id,
)
from rota.jobs.fields import read_queue
from rota.poller.advance import read_instant
from rota.poller.protocol import JobUpdate, PolledJob
from rota.stores.documents import find_document
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.triggers.cron import parse_cron, settle_zone
from rota.triggers.zone import load_zone


def wakes_at(job: Job) -> datetime | None:
    """The first instant at which the job can be locked; None when never again."""
    if job.status is JobStatus.READY:
        return job.due_at
    return None if job.lease is None else job.lease.until


def lock_job(job: Job, owner: str, until: datetime, now: datetime) -> Job:
    """The job locked by ``owner``, with a token greater than any it had before."""
    token = job.last_token + 1
    lease = Lease(token=token, worker=owner, taken_at=now, until=until)
    return replace(job, status=JobStatus.RUNNING, lease=lease, last_token=token, updated_at=now)


def is_locked_by(job: Job, token: int) -> bool:
    """Whether the job's last lock has that token. The lock may have ended."""
    return job.lease is not None and job.lease.token == token


def update_job(job: Job, update: JobUpdate, now: datetime) -> Job:
    """The updated job, without its lock."""
    updated = replace(job, lease=None, status=JobStatus.READY, updated_at=now)
    if update.auto_remove is not UNSET:
        updated = replace(updated, auto_remove=update.auto_remove)
    if update.sleep_until is UNSET:
        return updated
    if update.sleep_until is None:
        return replace(updated, status=JobStatus.COMPLETED)
    return replace(updated, due_at=update.sleep_until)


def as_polled(before: Job, token: int) -> PolledJob:
    """The job for its poller, as it was before the lock."""
    recurrence = before.recurrence
    return PolledJob(
        id=before.id,
        sleep_until=wakes_at(before),
        interval=None if recurrence is None else recurrence.text,
        repeat_until=None if recurrence is None else recurrence.until,
        auto_remove=before.auto_remove,
        zone=None if recurrence is None else recurrence.zone,
        payload=before.payload,
        lock=token,
    )


DEFAULT_QUEUE = "poller"

_ROUNDS = 3
"""How often the order is read again when other pollers took every job that was due."""


class PolledJobs:
    """The jobs of one queue for pollers: a ``PollableStore`` on any store.

    Pollers of the same queue share its jobs. ``clock`` gives the time when jobs are added.
    """

    def __init__(
        self, store: DocumentStore, queue: str = DEFAULT_QUEUE, *, clock: Clock | None = None
    ) -> None:
        self.store = store
        self._queue = read_queue(queue)
        self._clock = clock if clock is not None else SystemClock()
        self._jobs = f"poller.{queue}"
        self._order = f"poller.{queue}.line"
        self._numbers = count(randbits(61))  # jobs added at one instant keep their order
        self._stride = randbits(5)
        self._owner = make_process_name()

    @property
    def label(self) -> str:
        """What is polled, for people."""
        return f"queue {self._queue}"

    async def add(
        self,
        payload: Mapping[str, Any],
        *,
        sleep_until: datetime | None = None,
        interval: str | None = None,
        repeat_until: datetime | None = None,
        auto_remove: bool = False,
        zone: str | None = None,
    ) -> JobId:
        """Store a job that is due at ``sleep_until``, by default now; returns its id.

        With an ``interval`` it recurs, in the wall time of ``zone``, by default UTC, until
        ``repeat_until``. With ``auto_remove`` it is removed when it is done. InvalidInputError
        names the invalid field.
        """
        now = self._clock.now()
        request = JobRequest(
            name=self._queue,
            queue=self._queue,
            payload=payload,
            due_at=None if sleep_until is None else read_instant(sleep_until, "sleep_until"),
            auto_remove=auto_remove,
        )
        job = admit_job(request, job_id=make_job_id(now, next(self._numbers)), now=now)
        if interval is not None:
            recurrence = _read_recurrence(interval, repeat_until, zone, job.due_at)
            job = replace(job, recurrence=recurrence)
        place = DocumentWrite(self._order, f"{format_instant(job.due_at)} {job.id}", None, b"")
        await self.store.write_all([_body_write(self._jobs, job, None), place])
        return job.id

    async def get(self, job_id: JobId) -> Job | None:
        """The stored job; None when there is none."""
        found = await self._read(job_id)
        return None if found is None else found[0]

    async def scan(self) -> AsyncIterator[Sequence[Job]]:
        """All jobs of the queue by id, in pages, including those that are done."""
        async for page in self.store.scan(self._jobs):
            yield [_decode(document) for document in page]

    async def discard(self, job_id: JobId) -> bool:
        """Remove a job in any state. A poller that processes it may finish; it does not recur."""
        return await self._change(job_id, lambda _: True, lambda _: None)

    async def lock_next(self, lock_until: datetime, now: datetime) -> PolledJob | None:
        """Lock the next job; see the protocol.

        A caller that loses the race for it gets one of the following jobs. A record that cannot be
        read is skipped; DamagedJobError when there is no other.
        """
        until, now = to_utc(lock_until, "lock_until"), to_utc(now, "now")
        damage: DamagedJobError | None = None
        for _ in range(_ROUNDS):
            keys = await self._keys_due(now)
            for key in self._spread(keys):
                try:
                    locked = await self._lock(key, until, now)
                except DamagedJobError as error:
                    damage = damage or error
                    continue
                if locked is not None:
                    return locked
            if not keys or damage is not None:
                break
        if damage is not None:
            raise damage
        return None

    async def update(self, job: PolledJob, update: JobUpdate, now: datetime) -> bool:
        """Write the update and end the lock; see the protocol."""
        now = to_utc(now, "now")
        return await self._change(
            job.id,
            lambda found: is_locked_by(found, job.lock),
            lambda found: update_job(found, update, now),
        )

    async def remove(self, job: PolledJob) -> bool:
        """Remove the job; see the protocol."""
        return await self._change(
            job.id, lambda found: is_locked_by(found, job.lock), lambda _: None
        )

    async def _change(
        self,
        job_id: object,
        may_change: Callable[[Job], bool],
        decide: Callable[[Job], Job | None],
    ) -> bool:
        """Write the job as decided, or remove it; False when it may not change, or is gone."""
        while (found := await self._read(job_id)) is not None:
            if not may_change(found[0]):
                return False
            if await self._write(found, decide(found[0])):
                return True
        return False

    async def _keys_due(self, now: datetime) -> list[str]:
        """The keys of the due jobs on the first page of the order."""
        pages, end = self.store.scan(self._order), format_instant(now)
        try:
            async for page in pages:
                return [document.key for document in page if document.key[: len(end)] <= end]
        finally:
            if isinstance(pages, AsyncGenerator):
                await pages.aclose()
        return []

    def _spread(self, keys: list[str]) -> list[str]:
        """The first key, then the others from a place that differs between pollers.

        Otherwise all pollers that lose the race for the first would race for the second.
        """
        others = keys[1:]
        start = self._stride % len(others) if others else 0
        return keys[:1] + others[start:] + others[:start]

    async def _lock(self, key: str, until: datetime, now: datetime) -> PolledJob | None:
        """Lock the job with that key in the order; None when another poller was faster."""
        found = await self._read(key.rpartition(" ")[2])
        if found is None or _place_of(found[0]) != key:
            return None
        before = found[0]
        locked = lock_job(before, self._owner, until, now)
        return as_polled(before, locked.last_token) if await self._write(found, locked) else None

    async def _read(self, job_id: object) -> tuple[Job, Document] | None:
        if not isinstance(job_id, str) or normalize_job_id(job_id) is None:
            return None
        found = await find_document(self.store, self._jobs, job_id)
        return None if found is None else (_decode(found), found)

    async def _write(self, found: tuple[Job, Document], after: Job | None) -> bool:
        """Write or remove the job and its place in the order; False when it changed meanwhile."""
        before, document = found
        writes = [
            DocumentWrite(self._jobs, document.key, document.version, None)
            if after is None
            else _body_write(self._jobs, after, document.version)
        ]
        left, taken = _place_of(before), None if after is None else _place_of(after)
        if left is not None:
            writes.append(DocumentWrite(self._order, left, 1, None))
        if taken is not None:
            writes.append(DocumentWrite(self._order, taken, None, b""))
        try:
            await self.store.write_all(writes)
        except StaleVersionError:
            return False
        return True


def _place_of(job: Job) -> str | None:
    """The key of a job in the order, which sorts by time, then by id.

    A job that never wakes again has none, so a poller that read the order before cannot wake it.
    """
    at = wakes_at(job)
    return None if at is None else f"{format_instant(at)} {job.id}"


def _body_write(collection: str, job: Job, expected: int | None) -> DocumentWrite:
    return DocumentWrite(collection, job.id, expected, msgspec.json.encode(encode_job(job)))


def _decode(document: Document) -> Job:
    try:
        return decode_job(msgspec.json.decode(document.body))
    except msgspec.DecodeError as error:
        raise DamagedJobError(document.key, f"is not JSON: {error}") from error


def _read_recurrence(
    interval: str, repeat_until: datetime | None, zone: str | None, start: datetime
) -> Recurrence:
    parse_cron(interval, dialect="extended")
    interval, named = settle_zone(interval, zone)
    zone = named or "UTC"
    load_zone(zone)
    until = None if repeat_until is None else read_instant(repeat_until, "repeat_until")
    return Recurrence(cron=interval, zone=zone, start=start, until=until)
