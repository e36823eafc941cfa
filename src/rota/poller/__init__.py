"""Specification 4: lock the next document, process it, reschedule it."""

from rota.poller.advance import next_start
from rota.poller.jobs import PolledJobs
from rota.poller.poller import Poller
from rota.poller.protocol import JobUpdate, PollableStore, PolledJob
from rota.poller.settings import PollerOptions

__all__ = [
    "JobUpdate",
    "PollableStore",
    "PolledJob",
    "PolledJobs",
    "Poller",
    "PollerOptions",
    "next_start",
]
