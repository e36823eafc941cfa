"""Whoever leases from MongoDB is given the same jobs in the same order as from memory."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from tests.unit.stores.mongo.serving.indexed_gateway import IndexedGateway

from rota.jobs import Job, JobRequest, admit_job, make_job_id
from rota.stores.memory import MemoryStore
from rota.stores.mongo.jobs.leasing.leases import lease_next
from rota.stores.mongo.jobs.rows import encode_job
from rota.stores.mongo.schema.indexes import INDEXES
from rota.stores.mongo.steps.names import JOBS, VERSION
from rota.stores.protocol import LeaseRequest

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
QUEUES = ("mail", "report", "video")


def some_jobs(random: Random, tenants: Sequence[str]) -> list[Job]:
    """Jobs of few priorities and moments, so that many of them are alike; some are not due."""
    made: list[Job] = []
    for number in range(random.randint(0, 25)):
        created_at = NOW - random.randint(0, 3) * SECOND
        request = JobRequest(
            name="work",
            queue=random.choice(QUEUES),
            payload={},
            priority=random.randint(1, 3),
            due_at=NOW + random.choice([-5, -1, 0, 0, 5]) * SECOND,
        )
        job_id = make_job_id(created_at, number)
        tenant = random.choice(tenants)
        made.append(admit_job(request, job_id=job_id, now=created_at, tenant=tenant))
    return made


def a_request(random: Random, tenants: Sequence[str]) -> LeaseRequest:
    """Anything between one job and more than there are, of all, some or none."""
    told: dict[str, Any] = {
        "limit": random.randint(1, 8),
        "after_tenant": random.choice(["", "t", "zz", *tenants]),
    }
    if random.random() < 0.6:
        told["queues"] = random.sample([*QUEUES, "nothing"], random.randint(0, 2))
    if random.random() < 0.3:
        told["tenants"] = random.sample([*tenants, "nobody"], random.randint(0, len(tenants)))
    return LeaseRequest(worker="w", lease_for=60 * SECOND, **told)


@pytest.mark.parametrize("seed", range(4))
async def test_tenants_take_turns_as_in_memory(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        tenants = [f"t{number}" for number in range(random.randint(1, 6))]
        jobs = some_jobs(random, tenants)
        gateway, memory = IndexedGateway(INDEXES), MemoryStore()
        gateway.lay(
            JOBS, [{"_id": job.id, VERSION: 1, **encode_job(job, job.created_at)} for job in jobs]
        )
        for job in jobs:
            await memory.insert([job], job.created_at)
        for _ in range(4):
            request = a_request(random, tenants)
            expected = await memory.lease(request, NOW)
            assert await lease_next(gateway, request, NOW) == expected, request
