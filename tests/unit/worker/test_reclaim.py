"""A lease that never reached its worker is found on every store."""

from datetime import timedelta
from random import Random

from rota.clock.system import SystemClock
from rota.events import EventEmitter
from rota.fleet.outage import Outage
from rota.jobs import JobStatus
from rota.policy.watch import GateWatch, LimitWatch
from rota.runtime.wiring import open_store
from rota.stores.protocol import LeaseRequest
from rota.testing import a_job
from rota.worker import WorkerSettings
from rota.worker.attempts import Flow
from rota.worker.registry import Registry
from rota.worker.rescuer import Rescuer
from rota.worker.settings import Resources

MINUTE = timedelta(minutes=1)


async def test_a_lease_without_an_answer_is_found_on_every_store(store_url: str) -> None:
    clock, events = SystemClock(), EventEmitter("rota.worker")
    settings = WorkerSettings(lease_for=MINUTE)
    async with await open_store(store_url) as store:
        asked_at = clock.now()
        jobs = [a_job(created_at=asked_at - MINUTE) for _ in range(3)]
        await store.insert(jobs, asked_at)
        for worker, taken_at in (
            ("another", asked_at - timedelta(microseconds=1)),
            ("me", asked_at),
            ("another", asked_at + timedelta(microseconds=1)),
        ):
            await store.lease(LeaseRequest(worker=worker, limit=1, lease_for=MINUTE), taken_at)
        resources = Resources(
            *(store, clock, settings, Registry({}, ()), events, Random(1), "me", Outage(events)),
            *(GateWatch(store), LimitWatch(store)),
        )
        assert await Rescuer(resources, Flow(), [asked_at + MINUTE]).reclaim() == 1
        kept = await store.get(jobs[0].tenant, [job.id for job in jobs])
    found = [(kept[job.id].status, kept[job.id].attempt_count) for job in jobs]
    assert found == [(JobStatus.RUNNING, 0), (JobStatus.READY, 0), (JobStatus.RUNNING, 0)]
