"""Rota: one scheduling rail for Python platforms.

Everything that may be relied on is named here; ``rota.testing`` holds what tests need.
"""

from rota import errors, events
from rota.jobs import BackoffStrategy, Job, JobStatus, RetryPolicy
from rota.poller import Poller
from rota.rail import Rail
from rota.runtime.wiring import open_store
from rota.scheduler import DECLARATIVE, POLLING, Scheduler, SchedulerPolicy, SchedulerSettings
from rota.triggers.parse import parse_cron
from rota.triggers.rrule import parse_rrule
from rota.worker import Context, Discard, Snooze, Worker, WorkerSettings

__version__ = "0.1.0"

__all__ = [
    "DECLARATIVE",
    "POLLING",
    "BackoffStrategy",
    "Context",
    "Discard",
    "Job",
    "JobStatus",
    "Poller",
    "Rail",
    "RetryPolicy",
    "Scheduler",
    "SchedulerPolicy",
    "SchedulerSettings",
    "Snooze",
    "Worker",
    "WorkerSettings",
    "errors",
    "events",
    "open_store",
    "parse_cron",
    "parse_rrule",
]
