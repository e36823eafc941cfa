"""While a script runs the server does nothing else: none of them does more than bounded work.

What is counted is commands, which on a busy machine are as many as on an idle one. Long runs, with
100,000 jobs each, are made with ``ROTA_TEST_PATIENTLY=1``.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import redis
from tests.servers.redis import RedisServer

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.jobs import Discarded, Job, JobFilter, JobStatus, decide_cancel, decide_outcome
from rota.stores.protocol import DocumentWrite
from rota.stores.redis import documents
from rota.stores.redis import store as redis_store
from rota.stores.redis.address import read_address
from rota.stores.redis.connections import MOST_ARGUMENTS
from rota.stores.redis.scripts import Script
from rota.stores.redis.store import (
    CHANGED_AT_ONCE,
    MOST_INSERTED,
    PRUNED_AT_ONCE,
    RedisStore,
)
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, NOW, end, take

pytestmark = pytest.mark.process

IS_PATIENT = "ROTA_TEST_PATIENTLY" in os.environ
MANY = 100_000 if IS_PATIENT else 2_500
"""Several times as many as any script takes at once."""

MOST_COMMANDS = 50_000
"""As docs/reference/stores.md says, of an insert of the largest kind."""

FEW_COMMANDS = 10_000
"""Of any other script about jobs."""


class Meter:
    """Counts the commands of each script that a store runs."""

    def __init__(self, store: RedisStore, client: redis.Redis) -> None:
        self._client = client
        self._connections = store._database.connections
        self._run_script = self._connections.run_script
        self._turn = asyncio.Lock()
        self.longest: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()

    async def run_script(self, script: Script, arguments: Sequence[Any]) -> Any:
        async with self._turn:  # so that what is counted is this one's
            before = self._count()
            answer = await self._run_script(script, arguments)
            used = self._count() - before - 1  # the counting itself
        self.longest[script.name] = max(used, self.longest[script.name])
        self.runs[script.name] += 1
        return answer

    def _count(self) -> int:
        said: dict[str, dict[str, int]] = self._client.info("commandstats")
        return sum(each["calls"] for each in said.values())


@pytest.fixture
async def store(own_redis: RedisServer) -> AsyncIterator[RedisStore]:
    async with await RedisStore.open(read_address(own_redis.url)) as store:
        yield store


@pytest.fixture
def meter(
    own_redis: RedisServer, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Meter]:
    with redis.Redis.from_url(own_redis.url) as client:
        meter = Meter(store, client)
        monkeypatch.setattr(store._database.connections, "run_script", meter.run_script)
        yield meter


async def insert_all(store: RedisStore, jobs: Sequence[Job]) -> None:
    for at in range(0, len(jobs), MOST_INSERTED):
        await store.insert(jobs[at : at + MOST_INSERTED], NOW)


def make_chain(length: int) -> list[Job]:
    """Jobs of which each depends on the one before."""
    chain = [a_job()]
    while len(chain) < length:
        chain.append(a_job(dependencies=[chain[-1].id]))
    return chain


async def test_the_largest_insert_is_bounded(store: RedisStore, meter: Meter) -> None:
    jobs = [a_job(idempotency_key="0")]
    while len(jobs) < MOST_INSERTED:
        jobs.append(a_job(idempotency_key=f"{len(jobs)}", dependencies=[jobs[-1].id]))
    await store.insert(jobs, NOW)
    assert meter.longest["commit"] <= MOST_COMMANDS


async def test_more_than_that_is_refused_and_nothing_is_kept(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "MOST_INSERTED", 3)
    with pytest.raises(InvalidInputError, match="up to 3 jobs in one call of insert") as refusal:
        await store.insert([a_job() for _ in range(4)], NOW)
    assert refusal.value.details == {"field": "jobs", "limit": 3}
    jobs = [a_job() for _ in range(2)]
    jobs.append(a_job(dependencies=[each.id for each in jobs] * 2))
    with pytest.raises(InvalidInputError, match="up to 3 dependencies"):
        await store.insert(jobs, NOW)
    assert await store.count("default") == 0


async def test_many_jobs_ended_in_one_call_go_part_by_part_beside_a_lease(
    store: RedisStore, meter: Meter
) -> None:
    jobs = [a_job() for _ in range(MANY)]
    await insert_all(store, jobs)
    changes = [decide_cancel(job, "no", NOW) for job in jobs]
    applied, _ = await asyncio.gather(store.apply(changes, NOW), take(store, limit=10))
    assert sum(each.is_stale for each in applied) <= 10
    assert meter.longest["commit"] <= FEW_COMMANDS
    assert meter.longest["lease"] <= FEW_COMMANDS
    before = meter.runs["commit"]
    assert (await store.prune(NOW + DAY, MANY)).removed >= MANY - 10
    assert meter.runs["commit"] - before >= MANY // PRUNED_AT_ONCE
    assert meter.longest["commit"] <= FEW_COMMANDS


async def test_ends_that_concern_others_are_bounded_together(
    store: RedisStore, meter: Meter
) -> None:
    """With attempts to be kept and dependents to be told."""
    parents = [a_job(idempotency_key=f"{number}") for number in range(CHANGED_AT_ONCE)]
    await insert_all(store, parents)
    await insert_all(store, [a_job(dependencies=[parent.id]) for parent in parents])
    leased = await take(store, limit=CHANGED_AT_ONCE)
    applied = await store.apply([decide_outcome(job, Discarded("no"), NOW) for job in leased], NOW)
    assert sum(len(each.blocked) for each in applied) == CHANGED_AT_ONCE
    assert meter.longest["commit"] <= FEW_COMMANDS
    assert meter.longest["lease"] <= FEW_COMMANDS


async def test_many_that_come_due_together_or_are_put_off_are_moved_part_by_part(
    store: RedisStore, meter: Meter
) -> None:
    await insert_all(store, [a_job(due_at=NOW + DAY) for _ in range(MANY)])
    assert len(await take(store, NOW + DAY, limit=1)) == 1
    assert await take(store, NOW, limit=1) == [], "a clock was set back"
    assert meter.runs["lease"] >= 2 * MANY / 1_000
    assert meter.longest["lease"] <= FEW_COMMANDS


async def test_a_long_chain_is_blocked_part_by_part(store: RedisStore, meter: Meter) -> None:
    chain = make_chain(MANY)
    await insert_all(store, chain)
    (leased,) = await take(store)
    meter.longest.clear()
    applied = await end(store, leased, Discarded("no"))
    assert len(applied.blocked) == MANY - 1
    assert meter.runs["finish"] >= (MANY - 1) // 2_000
    assert max(meter.longest.values()) <= FEW_COMMANDS


async def test_a_write_in_doubt_after_some_parts_is_reported_as_such(
    store: RedisStore, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "CHANGED_AT_ONCE", 2)
    jobs = [a_job() for _ in range(4)]
    await store.insert(jobs, NOW)
    changes = [decide_cancel(job, "no", NOW) for job in jobs]
    run_script, calls = store._database.connections.run_script, Counter[str]()

    async def fail_once(script: Script, arguments: Sequence[Any]) -> Any:
        calls[script.name] += 1
        if script.name == "commit" and calls["commit"] == 2:
            await asyncio.to_thread(own_redis.kill)
        return await run_script(script, arguments)

    monkeypatch.setattr(store._database.connections, "run_script", fail_once)
    with pytest.raises(StoreUnavailableError, match="is not available") as caught:
        await store.apply(changes, NOW)
    assert caught.value.details["outcome"] == "unknown"
    await asyncio.to_thread(own_redis.start)
    assert await store.count("default", JobFilter(status=JobStatus.FAILED)) == 2
    assert [each.is_stale for each in await store.apply(changes, NOW)] == [True] * 2 + [False] * 2


async def test_many_documents_are_written_in_parts_or_few_commands(
    store: RedisStore, meter: Meter
) -> None:
    writes = [DocumentWrite("tasks", f"{number:06}", None, b"") for number in range(MANY)]
    await store.write_all(writes)
    assert meter.longest["write_all"] <= FEW_COMMANDS
    changes = [write._replace(expected=1) for write in writes]
    changes += changes[: documents.WRITTEN_AT_ONCE]
    written = await store.write_each(changes)
    assert written[:MANY] == [2] * MANY
    assert set(written[MANY:]) == {None}
    assert meter.longest["write_each"] <= 4 * documents.WRITTEN_AT_ONCE + 10


async def test_more_writes_than_one_step_takes_are_refused_and_none_is_kept(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MOST_WRITES", 2_500)
    with pytest.raises(InvalidInputError, match="up to 2,500 writes in one call of write_all"):
        await store.write_all(DocumentWrite("tasks", f"{n}", None, b"") for n in range(3_000))
    assert [page async for page in store.scan("tasks")] == []


async def test_a_request_too_large_for_the_server_is_not_sent(store: RedisStore) -> None:
    ids = [a_job().id] * (MOST_ARGUMENTS + 1)
    with pytest.raises(InvalidInputError, match="takes up to 1,000,000 parts in one call"):
        await store.get("default", ids)
    assert await store.get("default", ids[:10]) == {}
