"""Waits for the end of a job, and reads what it returned or why it failed."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, NamedTuple

from rota.clock.protocol import Clock, keeps_real_time
from rota.errors import JobCancelledError, JobFailedError, JobNotFoundError
from rota.jobs import Ending, Job, JobId, JobStatus
from rota.ops.explanation import find_culprits
from rota.rail.jobs import RailStore
from rota.stores.protocol import JobStore, Listener, Watchable

POLLED_EVERY = timedelta(seconds=5)
"""How often a waiter looks although nothing woke it, in real time."""

SHORTEST_LOOK = timedelta(milliseconds=2)
LONGEST_LOOK = timedelta(milliseconds=100)
LOOKS_EASED_AFTER = 50
"""A store that cannot notify is looked at again after this fraction of the time waited so far."""


_MOST_NAMED = 3


class Ended(NamedTuple):
    """A job that has ended; ``result`` is JSON, None if there is none."""

    job: Job
    result: bytes | None = None


async def wait_for_end(store: JobStore, clock: Clock, tenant: str, job_id: JobId) -> Job:
    """The job once it is COMPLETED, FAILED or BLOCKED.

    Waits by wake-up where the store can notify. Raises JobNotFoundError when the tenant has no such
    job, or it is removed meanwhile.
    """
    job = await _read(store, tenant, job_id)
    if job.status.is_terminal:
        return job
    async with store.listen_for_end(tenant, [job_id]) as listener:
        started_at = clock.now()
        while True:
            version = store.read_version() if isinstance(store, Watchable) else None
            job = await _read(store, tenant, job_id)
            if job.status.is_terminal:
                return job
            if keeps_real_time(clock):
                waited_for = clock.now() - started_at
                await _first_of(listener, _look(store, clock, version, waited_for))
            else:  # no other process lives in virtual time
                await listener.wait()


async def read_end(store: RailStore, job: Job) -> Ended:
    """The result of a job that has ended. Raises JobCancelledError or JobFailedError."""
    if job.status is JobStatus.COMPLETED:
        results = await store.results(job.tenant, [job.id])
        return Ended(job, results.get(job.id))
    if job.ending is Ending.CANCELLED:
        raise JobCancelledError(job.id, job.last_error)
    if job.status is JobStatus.BLOCKED:
        culprits = await find_culprits(store, job)
        named = "; ".join(f"{it.kind} {it.id}: {it.last_error}" for it in culprits[:_MOST_NAMED])
        raise JobFailedError(job.id, f"it is blocked by {named or 'a dependency that failed'}")
    attempts = reversed(await store.attempts(job.tenant, job.id))
    last = next((it for it in attempts if it.error is not None), None)
    raise JobFailedError(
        job.id, job.last_error or str(job.ending), None if last is None else last.traceback
    )


async def _read(store: JobStore, tenant: str, job_id: JobId) -> Job:
    found = await store.get(tenant, [job_id])
    if job_id not in found:
        raise JobNotFoundError(job_id)
    return found[job_id]


async def _first_of(listener: Listener, looking: Coroutine[Any, Any, None]) -> None:
    """Return when the listener hears something, or the look is over."""
    tasks = {asyncio.ensure_future(listener.wait()), asyncio.ensure_future(looking)}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
    for task in done:
        task.result()


async def _look(store: object, clock: Clock, version: int | None, waited_for: timedelta) -> None:
    """Return when the version of the store changes; at the latest when it is time to poll."""
    if not isinstance(store, Watchable):
        await clock.sleep(POLLED_EVERY)
        return
    left, looked_for = POLLED_EVERY, timedelta(0)
    while looked_for < left and store.read_version() in (None, version):
        pause = min(max((waited_for + looked_for) / LOOKS_EASED_AFTER, SHORTEST_LOOK), LONGEST_LOOK)
        await clock.sleep(pause)
        looked_for += pause
