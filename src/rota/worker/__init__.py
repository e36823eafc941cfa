"""Runs jobs, whichever entrance they came through."""

from rota.fleet.presence import WorkerPresence, list_workers
from rota.worker.completer import Settled
from rota.worker.context import (
    CallNext,
    CancelReason,
    Context,
    Discard,
    Lifespan,
    Middleware,
    Snooze,
    effectively_once,
)
from rota.worker.progress import Progress, read_progress
from rota.worker.settings import WorkerSettings
from rota.worker.worker import (
    StopManner,
    StopReport,
    Worker,
    run_until_signalled,
    stop_on_signals,
)

__all__ = [
    "CallNext",
    "CancelReason",
    "Context",
    "Discard",
    "Lifespan",
    "Middleware",
    "Progress",
    "Settled",
    "Snooze",
    "StopManner",
    "StopReport",
    "Worker",
    "WorkerPresence",
    "WorkerSettings",
    "effectively_once",
    "list_workers",
    "read_progress",
    "run_until_signalled",
    "stop_on_signals",
]
