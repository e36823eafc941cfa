"""Specification 4: lock the next document, process it, say when it is next."""

from rota.poller.advance import next_start
from rota.poller.poller import Poller
from rota.poller.protocol import JobUpdate, PollableStore, PolledJob
from rota.poller.records import PolledJobs
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
