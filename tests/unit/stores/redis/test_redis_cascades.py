"""An end that concerns many is told in parts, and comes to its end however many they are."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rota.errors import StoreUnavailableError
from rota.jobs import Discarded, JobStatus
from rota.stores.redis.address import read_address
from rota.stores.redis.jobs.changing import editing, settling
from rota.stores.redis.store import RedisStore
from rota.testing import a_job
from rota.testing.job_store_fixture import MINUTE, NOW, end, take
from rota.testing.portable_store_contract import dump_all

TOLD_AT_ONCE = 500
"""``MOST_TOLD`` in consequences.lua."""


@pytest.mark.parametrize("count", [TOLD_AT_ONCE - 1, TOLD_AT_ONCE, TOLD_AT_ONCE + 1])
async def test_all_dependents_are_released_when_nobody_waits_for_anybody_afterwards(
    redis_url: str, count: int
) -> None:
    parent = a_job()
    children = [a_job(dependencies=[parent.id]) for _ in range(count)]
    async with await RedisStore.open(read_address(redis_url)) as store:
        await store.insert([parent, *children], NOW)
        (leased,) = await take(store)
        async with asyncio.timeout(30):
            applied = await end(store, leased)
        assert applied.released == tuple(sorted(child.id for child in children))
        found = await store.get("default", [child.id for child in children])
        assert {job.status for job in found.values()} == {JobStatus.READY}
        await store.dump()  # which is refused while dependents are to be told


async def test_nothing_is_dumped_while_dependents_are_to_be_told(redis_url: str) -> None:
    async with await RedisStore.open(read_address(redis_url)) as store:
        database = store._database
        cascades = next(key for key in database.keys.jobs if key.endswith(":cascades"))
        await store.insert([a_job()], NOW)
        await database.call("ZADD", cascades, 0, "2026-01-01T00:00:00.000000Z")
        with pytest.raises(StoreUnavailableError, match="have not all been told yet"):
            await dump_all(store)
        await database.call("DEL", cascades)
        assert len(await dump_all(store)) == 1


@pytest.mark.parametrize("outcome", ["nothing was written", "unknown"])
async def test_an_end_that_is_written_and_not_told_to_all_is_in_doubt(
    redis_url: str, outcome: str
) -> None:
    parent = a_job()
    children = [a_job(dependencies=[parent.id]) for _ in range(TOLD_AT_ONCE + 1)]
    async with await RedisStore.open(read_address(redis_url)) as store:
        await store.insert([parent, *children], NOW)
        (leased,) = await take(store)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(settling, "finish_cascade", _refuse(outcome))
            with pytest.raises(StoreUnavailableError) as caught:
                await end(store, leased)
        assert caught.value.details["outcome"] == "unknown"
        assert (await store.get("default", [parent.id]))[parent.id].status is JobStatus.COMPLETED


async def test_an_amendment_that_is_written_and_not_told_to_all_is_in_doubt(
    redis_url: str,
) -> None:
    failed, other = a_job(), a_job(due_at=NOW + MINUTE)
    parent = a_job(dependencies=[other.id])
    children = [a_job(dependencies=[parent.id]) for _ in range(TOLD_AT_ONCE + 1)]
    async with await RedisStore.open(read_address(redis_url)) as store:
        await store.insert([failed, other, parent, *children], NOW)
        (leased,) = await take(store)
        await end(store, leased, Discarded("no"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(editing, "finish_cascade", _refuse("nothing was written"))
            with pytest.raises(StoreUnavailableError) as caught:
                await store.amend("default", parent.id, {"dependencies": [failed.id]}, NOW)
        assert caught.value.details["outcome"] == "unknown"
        assert (await store.get("default", [parent.id]))[parent.id].status is JobStatus.BLOCKED


def _refuse(outcome: str) -> Callable[..., Awaitable[None]]:
    async def refuse(*_: object) -> None:
        raise StoreUnavailableError("no memory left", {"outcome": outcome})

    return refuse
