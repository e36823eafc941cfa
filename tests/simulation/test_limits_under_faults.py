"""Limits hold on a store that fails, hangs and forgets; what they hold back is done in the end."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from tests.simulation.test_workers_under_faults import JOB_COUNT, START, Trial

from rota.jobs import JobStatus
from rota.policy.limits import Limit, Rate
from rota.rail.settings import set_limit
from rota.worker import Context

MINUTE = timedelta(minutes=1)


@dataclass
class LimitedTrial(Trial):
    """Notes how many run at once, and when each began."""

    most_running: int = 0
    begun: list[datetime] = field(default_factory=list)

    async def _work(self, context: Context) -> None:
        self.begun.append(self.clock.now())
        self.most_running = max(self.most_running, self.running.total() + 1)
        await super()._work(context)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("longest_delay", [timedelta(seconds=1), timedelta(minutes=1)])
async def test_no_more_run_at_once_than_a_limit_allows(seed: int, longest_delay: timedelta) -> None:
    trial = LimitedTrial(seed, longest_delay=longest_delay, lease_for=timedelta(seconds=30))
    await set_limit(trial.store, Limit(queue="default", running=2), clock=trial.clock)
    jobs = await trial.run()
    assert trial.fault_count > 0
    assert trial.most_running == 2
    assert len(jobs) == JOB_COUNT
    assert all(job.status.is_terminal for job in jobs)


@pytest.mark.parametrize("seed", range(8))
async def test_no_more_begin_in_a_time_than_a_rate_allows(seed: int) -> None:
    """Tokens that a failing store loses make it slower, and never faster."""
    trial = LimitedTrial(seed, longest_delay=timedelta(seconds=1), lease_for=MINUTE)
    rate = Rate(count=3, per=MINUTE, burst=2)
    await set_limit(trial.store, Limit(tenant="default", rate=rate), clock=trial.clock)
    jobs = await trial.run()
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    for number, begun in enumerate(sorted(trial.begun), 1):
        assert number <= 2 + 3 * ((begun - START) / MINUTE)
