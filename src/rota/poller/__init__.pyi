from rota.poller.advance import next_start as next_start
from rota.poller.jobs import PolledJobs as PolledJobs
from rota.poller.poller import Poller as Poller
from rota.poller.protocol import JobUpdate as JobUpdate
from rota.poller.protocol import PollableStore as PollableStore
from rota.poller.protocol import PolledJob as PolledJob
from rota.poller.settings import PollerOptions as PollerOptions

__all__ = [
    "JobUpdate",
    "PollableStore",
    "PolledJob",
    "PolledJobs",
    "Poller",
    "PollerOptions",
    "next_start",
]
