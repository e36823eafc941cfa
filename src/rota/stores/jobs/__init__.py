"""The seam between jobs and what remembers them, and the rules that every backend shares."""

from rota.stores.jobs.caps import Cap
from rota.stores.jobs.protocol import JobStore, LeaseKeeper, Listener, Watchable
from rota.stores.jobs.requests import HeldLease, LeaseRequest
from rota.stores.jobs.results import Applied, Inserted
from rota.stores.jobs.survey import QueueDepth

__all__ = [
    "Applied",
    "Cap",
    "HeldLease",
    "Inserted",
    "JobStore",
    "LeaseKeeper",
    "LeaseRequest",
    "Listener",
    "QueueDepth",
    "Watchable",
]
