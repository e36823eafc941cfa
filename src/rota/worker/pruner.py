"""Removes jobs that ended long ago."""

from datetime import timedelta

from rota.events import JobsPruned
from rota.fleet.outage import StoreRetry
from rota.worker.settings import Resources

PRUNED_EVERY = timedelta(minutes=1)
PRUNED_AT_ONCE = 500
PAUSE = timedelta(milliseconds=100)
"""Between two batches, so that pruning does not keep the store busy."""


async def run_pruner(resources: Resources, retention: timedelta) -> None:
    """Prune every minute or less, so that many workers do not prune at once; until cancelled."""
    clock, random = resources.clock, resources.random
    retry = StoreRetry(resources.outage, clock, random)
    while True:
        await clock.sleep(PRUNED_EVERY * (0.5 + random.random() / 2))
        await _prune(resources, retry, retention)


async def _prune(resources: Resources, retry: StoreRetry, retention: timedelta) -> None:
    """Remove all jobs that ended longer than ``retention`` ago, in batches."""
    clock, store = resources.clock, resources.store
    ended_before = clock.now() - retention
    total_count = 0
    while True:
        count = await retry.call(lambda: store.prune(ended_before, PRUNED_AT_ONCE))
        total_count += count
        if count < PRUNED_AT_ONCE:
            break
        await clock.sleep(PAUSE)
    if total_count and resources.events.wants(JobsPruned):
        resources.events.emit(JobsPruned(count=total_count, ended_before=ended_before))
