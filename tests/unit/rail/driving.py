"""A worker's part, in a few lines: take what is due, and end it."""

from datetime import datetime, timedelta

from rota.jobs import Job, Outcome, Succeeded, decide_outcome
from rota.rail import RailStore
from rota.stores.protocol import Applied, LeaseRequest

REQUEST = LeaseRequest(worker="w", limit=100, lease_for=timedelta(minutes=1))


async def take(store: RailStore, now: datetime) -> list[Job]:
    return await store.lease(REQUEST, now)


async def end(store: RailStore, job: Job, now: datetime, outcome: Outcome | None = None) -> Applied:
    (applied,) = await store.apply([decide_outcome(job, outcome or Succeeded(), now)], now)
    return applied


async def run_due(store: RailStore, now: datetime, outcome: Outcome | None = None) -> list[Job]:
    """Run everything that is due; each is ended at once."""
    taken = await take(store, now)
    for job in taken:
        await end(store, job, now, outcome)
    return taken
