"""Handlers that write down when they begin and how they end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.verification.jobs_trace.recording import Scribe
from tests.verification.jobs_trace.records import AttemptEnded, AttemptStarted

from rota.worker import Context


def recorded(
    work: Callable[[Context], Awaitable[Any]], scribe: Scribe
) -> Callable[[Context], Awaitable[Any]]:
    """The same handler. Its start is on record before it does anything."""

    async def attempt(context: Context) -> Any:
        lease = context.job.lease
        facts = {
            "job_id": context.job.id,
            "number": context.attempt,
            "token": context.token,
            "worker": "" if lease is None else lease.worker,
        }
        scribe.write(AttemptStarted, **facts)
        try:
            returned = await work(context)
        except (Exception, asyncio.CancelledError) as error:
            scribe.write(AttemptEnded, **facts, ending=type(error).__name__)
            raise
        scribe.write(AttemptEnded, **facts, ending="returned")
        return returned

    return attempt
