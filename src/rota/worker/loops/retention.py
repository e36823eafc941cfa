"""Removes jobs that ended long ago."""

from datetime import timedelta

from rota.events import JobsPruned
from rota.fleet.outage import Outage, StoreRetry
from rota.worker.surroundings import Surroundings

PRUNED_EVERY = timedelta(minutes=1)
PRUNED_AT_ONCE = 500
PAUSE = timedelta(milliseconds=100)
"""Between two batches, so that pruning never has the store to itself."""


async def prune_for_ever(surroundings: Surroundings, outage: Outage, retention: timedelta) -> None:
    """Every minute or less, so that many workers do not prune at once; until cancelled."""
    clock, random = surroundings.clock, surroundings.random
    retry = StoreRetry(outage, clock, random)
    while True:
        await clock.sleep(PRUNED_EVERY * (0.5 + random.random() / 2))
        await prune(surroundings, retry, retention)


async def prune(surroundings: Surroundings, retry: StoreRetry, retention: timedelta) -> int:
    """Remove all jobs that ended longer than ``retention`` ago, batch by batch; how many."""
    clock, store = surroundings.clock, surroundings.store
    ended_before = clock.now() - retention
    total_count = 0
    while True:
        count = await retry.call(lambda: store.prune(ended_before, PRUNED_AT_ONCE))
        total_count += count
        if count < PRUNED_AT_ONCE:
            break
        await clock.sleep(PAUSE)
    if total_count and surroundings.journal.wants(JobsPruned):
        surroundings.journal.emit(JobsPruned(count=total_count, ended_before=ended_before))
    return total_count
