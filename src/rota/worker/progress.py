"""How far running jobs are, as their handlers report it.

Each report replaces the last. A worker writes the latest ones about once a second, all together,
and removes them when their attempts end. Progress is for people: an error of the store loses a
report, and never a job.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from rota.clock.protocol import Clock
from rota.clock.system import timeout_after
from rota.errors import RotaError, StoreClosedError, invalid
from rota.jobs import Job, JobId, JobStatus
from rota.stores.documents import decode_body
from rota.stores.protocol import DocumentStore, DocumentWrite

PROGRESS = "progress"
"""The collection; a key is the id of a job."""

WRITTEN_EVERY = timedelta(seconds=1)
CLOSED_WITHIN = timedelta(seconds=1)
LONGEST_MESSAGE = 200


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The latest report of an attempt. ``token`` is that of its lease."""

    token: int
    done: float
    total: float | None = None
    message: str | None = None
    at: datetime

    @property
    def share(self) -> float | None:
        """From 0 to 1; None while the total is unknown."""
        return None if not self.total else min(self.done / self.total, 1.0)


def make_progress(
    job: Job, done: float, total: float | None, message: str | None, now: datetime
) -> Progress:
    """The report, if its values are valid."""
    _check_number("done", done)
    if total is not None:
        _check_number("total", total)
    if message is not None and not isinstance(message, str):
        raise invalid("message", f"must be a text, got {message!r:.40}")
    cut = None if message is None else message[:LONGEST_MESSAGE]
    return Progress(token=job.last_token, done=done, total=total, message=cut, at=now)


class ProgressWriter:
    """Writes the reports of one worker's attempts. ``report`` may be called from any thread."""

    def __init__(self, store: DocumentStore, clock: Clock, loop: AbstractEventLoop) -> None:
        self._store = store
        self._clock = clock
        self._loop = loop
        self._reported: set[JobId] = set()
        self._dirty: dict[JobId, Progress | None] = {}
        self._versions: dict[JobId, int | None] = {}
        self._task: asyncio.Task[None] | None = None

    def report(self, job: Job, done: float, total: float | None, message: str | None) -> None:
        """Have this written soon, instead of what was reported before."""
        progress = make_progress(job, done, total, message, self._clock.now())
        self._reported.add(job.id)
        with suppress(RuntimeError):  # the loop is closed: the worker has ended
            self._loop.call_soon_threadsafe(self._note, job.id, progress)

    def end(self, job_id: JobId) -> None:
        """The attempt has ended: have its report removed."""
        if job_id in self._reported:
            self._reported.discard(job_id)
            self._loop.call_soon(self._note, job_id, None)  # after its reports

    async def close(self) -> None:
        """Write what is left, the removals of the last reports, if the store takes it in time."""
        if self._task is None:  # nothing was reported
            return
        self._task.cancel()
        with suppress(TimeoutError):
            async with timeout_after(self._clock, CLOSED_WITHIN):
                await asyncio.wait({self._task})
                if self._dirty:
                    await self._write()

    def _note(self, job_id: JobId, progress: Progress | None) -> None:
        self._dirty[job_id] = progress
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="rota progress")

    async def _run(self) -> None:
        """Write at once, then about once a second until nothing new was reported."""
        while self._dirty:
            await self._write()
            await self._clock.sleep(WRITTEN_EVERY)

    async def _write(self) -> None:
        dirty, self._dirty = self._dirty, {}
        try:
            contended = await self._write_each(dirty)
            if contended:  # a dead worker left a report, or the last answer was lost
                await self._reread(list(contended))
                await self._write_each(contended)
        except StoreClosedError:
            return
        except RotaError:
            self._dirty = dirty | self._dirty

    async def _write_each(
        self, dirty: Mapping[JobId, Progress | None]
    ) -> dict[JobId, Progress | None]:
        """Write or remove these; returns the reports whose version was not the known one.

        A removal that finds another version is left: the report is that of another worker.
        """
        writes = [
            DocumentWrite(
                PROGRESS,
                job_id,
                self._versions.get(job_id),
                None if progress is None else msgspec.json.encode(progress),
            )
            for job_id, progress in dirty.items()
            if progress is not None or self._versions.get(job_id) is not None
        ]
        answers = await self._store.write_each(writes) if writes else []
        contended = {}
        for write, version in zip(writes, answers, strict=True):
            if version is None and write.body is not None:
                contended[write.key] = dirty[write.key]
            elif version:
                self._versions[write.key] = version
        for job_id, progress in dirty.items():
            if progress is None and job_id not in contended:
                self._versions.pop(job_id, None)
        return contended

    async def _reread(self, job_ids: Sequence[JobId]) -> None:
        found = await self._store.read(PROGRESS, job_ids)
        for job_id in job_ids:
            self._versions[job_id] = found[job_id].version if job_id in found else None


async def read_progress(store: DocumentStore, jobs: Sequence[Job]) -> dict[JobId, Progress]:
    """The latest reports of the running attempts among these jobs.

    What an earlier attempt has left is not shown.
    """
    running = {job.id: job for job in jobs if job.status is JobStatus.RUNNING}
    if not running:
        return {}
    found = await store.read(PROGRESS, list(running))
    decoded = {job_id: decode_body(it, Progress, None) for job_id, it in found.items()}
    return {
        job_id: progress
        for job_id, progress in decoded.items()
        if progress is not None and progress.token == running[job_id].last_token
    }


async def remove_progress(store: DocumentStore, job_ids: Sequence[JobId]) -> None:
    """Remove what dead workers have left of these jobs."""
    found = await store.read(PROGRESS, job_ids)
    removals = [DocumentWrite(PROGRESS, it.key, it.version, None) for it in found.values()]
    if removals:
        await store.write_each(removals)


def _check_number(field: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):  # type: ignore[operator]  # it is a number
        raise invalid(field, f"must be a number that is not negative, got {value!r:.40}")
