"""What a lease costs does not hang on how many other jobs there are.

Counted on a model that keeps the declared indexes, see ``indexed_gateway``: on a stand-in that goes
by no index it cannot be measured.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.stores.mongo.serving.indexed_gateway import Counts, IndexedGateway

from rota.jobs import Job, Succeeded, decide_lease, decide_outcome
from rota.stores.mongo.gateway import Raw
from rota.stores.mongo.jobs.leasing.leases import lease_next
from rota.stores.mongo.jobs.rows import encode_job
from rota.stores.mongo.jobs.settling import apply_plain
from rota.stores.mongo.schema.indexes import INDEXES
from rota.stores.mongo.steps.names import JOBS, VERSION
from rota.stores.protocol import LeaseRequest
from rota.testing.builders import a_job

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TAKEN = 100


def _others(count: int) -> Iterator[Job]:
    """So many that have ended, are due later, run, and stand in line behind the others."""
    for _ in range(count):
        running = decide_lease(a_job(due_at=NOW - HOUR), "other", 2 * HOUR, NOW).job
        yield running
        yield decide_outcome(running, Succeeded(), NOW).job
        yield a_job(due_at=NOW + HOUR)
        yield a_job(due_at=NOW - HOUR, created_at=NOW - HOUR, priority=1)


def _raw(job: Job) -> Raw:
    return {"_id": job.id, VERSION: 1, **encode_job(job, NOW)}


async def _count(other_count: int, **asked: object) -> Counts:
    """Of leasing and completing so many jobs at once."""
    gateway = IndexedGateway(INDEXES)
    gateway.lay(JOBS, map(_raw, _others(other_count)))
    mine = [a_job(due_at=NOW - HOUR, priority=9) for _ in range(TAKEN)]
    gateway.lay(JOBS, map(_raw, mine))
    request = LeaseRequest(worker="worker", limit=TAKEN, lease_for=HOUR, **asked)  # type: ignore[arg-type] # as told
    leased = await lease_next(gateway, request, NOW)
    assert {job.id for job in leased} == {job.id for job in mine}
    changes = [decide_outcome(job, Succeeded(), NOW) for job in leased]
    assert len(await apply_plain(gateway, changes, NOW)) == TAKEN
    return gateway.counts


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"after_tenant": "default"},
        {"queues": ["default"]},
        {"queues": ["default", "other"]},
        {"tenants": ["default"]},
    ],
)
async def test_a_lease_reads_and_writes_the_same_beside_many_other_jobs(
    asked: dict[str, object],
) -> None:
    alone, beside = await _count(0, **asked), await _count(200, **asked)
    assert beside == alone


async def test_a_lease_and_its_end_are_a_dozen_entries_of_indexes() -> None:
    counts = await _count(0)
    assert counts.commands == 6
    assert counts.entries_read == 4 * TAKEN
    assert counts.entries_written == 12 * TAKEN
