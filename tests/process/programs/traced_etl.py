"""The flow of examples/etl.py, whose workers note every start where a kill cannot undo it."""

import os
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
from examples.etl import app, load, transform

from rota.clock.system import SystemClock
from rota.jobs import format_instant
from rota.worker import Context

TRACE = "ETL_TRACE"
"""The file to which each start is appended, as one line of JSON."""

TAKES = timedelta(milliseconds=30)


class Start(msgspec.Struct, frozen=True):
    """A step has started."""

    job_id: str
    kind: str
    at: str
    process_id: int


async def note_start(context: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """Note the start, and make the step long enough to be killed."""
    at = format_instant(context.now)
    start = Start(context.job.id, context.job.kind, at, os.getpid())
    file = os.open(os.environ[TRACE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, msgspec.json.encode(start) + b"\n")
    finally:
        os.close(file)
    await SystemClock().sleep(TAKES)
    return await call_next()


app.middleware = (note_start,)

__all__ = ["TRACE", "Start", "app", "load", "transform"]
