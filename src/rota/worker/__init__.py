"""Runs jobs: specification 3's worker, and that of every other entrance."""

from rota.worker.context import CancelReason, Context, Discard, Snooze
from rota.worker.loops.settling import Settled
from rota.worker.presence import WorkerPresence, list_workers
from rota.worker.running.once import effectively_once
from rota.worker.running.shift import StopManner, StopReport
from rota.worker.settings import WorkerSettings
from rota.worker.signals import run_until_signalled, stop_on_signals
from rota.worker.worker import Worker

__all__ = [
    "CancelReason",
    "Context",
    "Discard",
    "Settled",
    "Snooze",
    "StopManner",
    "StopReport",
    "Worker",
    "WorkerPresence",
    "WorkerSettings",
    "effectively_once",
    "list_workers",
    "run_until_signalled",
    "stop_on_signals",
]
