from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.server.api.neighbours import Neighbours, two_tenants
from tests.server.service import JOBS, Visit

from rota.jobs import Job, decide_fail
from rota.runtime.wiring import open_store
from rota.stores.protocol import LeaseRequest

Kill = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def both(store_url: str) -> AsyncIterator[Neighbours]:
    """Two tenants, on each sort of store."""
    async with two_tenants(await open_store(store_url)) as neighbours:
        yield neighbours


@pytest.fixture
async def neighbours() -> AsyncIterator[Neighbours]:
    async with two_tenants() as made:
        yield made


async def make(neighbours: Neighbours, **fields: Any) -> dict[str, Any]:
    """A job of ours."""
    answer = await neighbours.ours.post(JOBS, json={"name": "a job", "queue": "mail", **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def take(service: Visit, **wish: Any) -> list[Job]:
    request = LeaseRequest(
        **{"worker": "w", "limit": 10, "lease_for": timedelta(minutes=1), **wish}
    )
    return await service.store.lease(request, service.clock.now())


async def make_dead(neighbours: Neighbours, **fields: Any) -> dict[str, Any]:
    """A job of ours that was tried once, and failed."""
    made = await make(neighbours, retry_policy={"max_attempts": 1}, **fields)
    service = neighbours.service
    for job in await take(service):
        now = service.clock.now()
        await service.store.apply([decide_fail(job, "KeyError: 'x'", now)], now)
    return made
