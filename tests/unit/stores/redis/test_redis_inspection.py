"""A store is looked at without being made, and made ready when asked for."""

import redis

from rota.runtime.wiring import inspect_store, migrate_store
from rota.stores.protocol import DocumentWrite
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.keys import name_keys
from rota.stores.redis.server import SCHEMA_VERSION
from rota.stores.redis.store import RedisStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import NOW, end, take


async def test_a_store_that_is_not_there_is_not_made(redis_url: str) -> None:
    for _ in range(2):
        found = await inspect_store(redis_url)
        assert (found.exists, found.is_up_to_date, found.kind) == (False, False, "Redis")
    report = await migrate_store(redis_url)
    assert (len(report.applied), report.schema_version) == (1, SCHEMA_VERSION)
    assert (await migrate_store(redis_url)).applied == ()
    assert (await inspect_store(redis_url)).is_up_to_date


async def test_inspection_counts_jobs_and_documents(store: RedisStore, redis_url: str) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in ("a", "b", "b")], NOW)
    (leased,) = await take(store, limit=1)
    await end(store, leased)
    await store.write_each(
        [DocumentWrite(name, key, None, b"") for name in ("x", "y") for key in "ab"]
    )
    found = await inspect_store(redis_url)
    assert found.job_counts == {"READY": 2, "COMPLETED": 1}
    assert found.document_counts == {"x": 2, "y": 2}
    assert found.version != ""


async def test_a_later_layout_is_a_finding(redis_url: str, redis_settings: RedisSettings) -> None:
    with redis.Redis.from_url(redis_settings.url) as client:
        client.set(name_keys(redis_settings.name).schema, SCHEMA_VERSION + 1)
    found = await inspect_store(redis_url)
    assert found.problem is not None
    assert "newer version of Rota" in found.problem
