"""An unreadable row stops no other job, keeps its bytes, and can be repaired."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from rota.errors import DamagedJobError
from rota.stores.protocol import Cap
from rota.stores.sqlite.store import SqliteStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, end, names, take

ReachIn = Callable[..., list[Any]]
BROKEN = b'{"name":"bad","payload":'


@pytest.fixture
async def damaged_id(store: SqliteStore, reach_in: ReachIn) -> str:
    """The first of three jobs that are due."""
    jobs = [a_job(name=name) for name in ("bad", "one", "two")]
    await store.insert(jobs, NOW)
    reach_in("UPDATE jobs SET body = ?2 WHERE id = ?1", jobs[0].id, BROKEN)
    return jobs[0].id


async def test_a_damaged_row_is_set_aside_with_its_bytes(
    store: SqliteStore, reach_in: ReachIn, damaged_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "rota.stores"):
        assert names(await take(store, limit=2)) == ["one", "two"]
    assert damaged_id in caplog.text
    assert "set aside" in caplog.text
    caplog.clear()
    assert await take(store, NOW + DAY) == []
    assert await store.next_due_at(NOW) is None
    assert caplog.text == ""
    ((body, status, lease, reason),) = reach_in(
        "SELECT body, status, lease_until, set_aside FROM jobs WHERE id = ?1", damaged_id
    )
    assert (body, status, lease) == (BROKEN, "READY", None)
    assert "truncated" in reason


async def test_a_repaired_row_comes_back(
    store: SqliteStore, reach_in: ReachIn, damaged_id: str
) -> None:
    await take(store)
    reach_in(
        "UPDATE jobs SET body = ?2, set_aside = NULL, is_due = 0 WHERE id = ?1",
        damaged_id,
        b'{"name":"good"}',
    )
    assert names(await take(store)) == ["good"]


@pytest.mark.usefixtures("damaged_id")
async def test_lists_pass_a_damaged_row_over(store: SqliteStore) -> None:
    page = await store.find("default")
    assert names(page.items) == ["one", "two"]


async def test_a_damaged_job_cannot_be_read_amended_or_deleted(
    store: SqliteStore, damaged_id: str
) -> None:
    assert await store.get("default", [damaged_id]) == {}
    with pytest.raises(DamagedJobError):
        await store.amend("default", damaged_id, {"priority": 1}, NOW)
    with pytest.raises(DamagedJobError):
        await store.delete("default", damaged_id)


async def test_a_sweep_goes_on_behind_damaged_rows(store: SqliteStore, reach_in: ReachIn) -> None:
    await store.insert([a_job() for _ in range(3)], NOW)
    *bad, good = await take(store)
    for job in bad:
        reach_in("UPDATE jobs SET body = ?2 WHERE id = ?1", job.id, BROKEN)
    assert await store.find_expired(NOW + DAY, 1) == [good]
    assert await store.find_expired(NOW + DAY, 1, good) == []


async def test_a_damaged_dependent_does_not_keep_its_parent_from_ending(
    store: SqliteStore, reach_in: ReachIn
) -> None:
    parent = a_job()
    child = a_job(dependencies=[parent.id])
    await store.insert([parent, child], NOW)
    reach_in("UPDATE jobs SET body = ?2 WHERE id = ?1", child.id, BROKEN)
    (leased,) = await take(store)
    assert (await end(store, leased)).released == (child.id,)
    assert await take(store) == []


@pytest.mark.usefixtures("damaged_id")
async def test_under_limits_a_damaged_row_gives_up_its_place(store: SqliteStore) -> None:
    assert names(await take(store, caps=(Cap("default", running=1),))) == ["one"]


async def test_an_impossible_age_does_not_stop_ageing(
    store: SqliteStore, reach_in: ReachIn
) -> None:
    jobs = [a_job(name=name) for name in ("bad", "one")]
    await store.insert(jobs, NOW)
    reach_in("UPDATE jobs SET created_at = ?2 WHERE id = ?1", jobs[0].id, 2**62)
    assert names(await take(store, ageing={"default": MINUTE})) == ["one"]
