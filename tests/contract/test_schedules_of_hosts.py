"""Schedules of an app on real stores: hosts that start at once, rolling deploys and rollbacks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rota import Rota, open_store
from rota.jobs import Job, JobFilter
from rota.ops.schedules import scan_schedules
from rota.schedules import GONE_AFTER, HOSTS, SEEN_EVERY
from rota.stores.opened import OpenStore
from rota.stores.protocol import DocumentWrite
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
V1 = {"kept": "@daily", "changed": "0 9 * * *", "gone": "@weekly"}
V2 = {"kept": "@daily", "changed": "0 10 * * *", "new": "1h"}


@pytest.fixture(params=["sqlite", "postgres", "mysql", "redis", "mongo"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rota.db"
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


class Fleet:
    """Hosts that run versions of one app on one store."""

    def __init__(self, url: str, store: OpenStore) -> None:
        self.url = url
        self.store = store
        self.clock = VirtualClock(NOW)
        self._hosts: dict[str, AsyncExitStack] = {}

    async def start(self, name: str, version: dict[str, Any]) -> None:
        """Start a host with a connection of its own."""
        app = Rota("memory://")
        app.schedules.app = "shop"
        for task_name, when in version.items():
            app.schedule(when)(app.task(name=task_name)(_run))
        stack = AsyncExitStack()
        store = await stack.enter_async_context(await open_store(self.url))
        await stack.enter_async_context(app.serving(store, self.clock))
        self._hosts[name] = stack

    async def stop(self, name: str) -> None:
        await self._hosts.pop(name).aclose()

    async def crash(self, name: str) -> None:
        """End a host without a word: its sign of life stays."""
        documents = [each async for page in self.store.scan(HOSTS) for each in page]
        await self.stop(name)
        left = {each.key async for page in self.store.scan(HOSTS) for each in page}
        lost = [each for each in documents if each.key not in left]
        await self.store.write_all(
            [DocumentWrite(HOSTS, each.key, None, each.body) for each in lost]
        )

    async def live(self) -> dict[str, Job]:
        page = await self.store.find("default", JobFilter(is_recurring=True), limit=100)
        jobs = [job for job in page.items if not job.status.is_terminal]
        assert len({job.name for job in jobs}) == len(jobs)
        return {job.name: job for job in jobs}

    async def version(self) -> dict[str, str]:
        found = [it.schedule async for it in scan_schedules(self.store)]
        assert {it.name for it in found} == set(await self.live())
        assert all(it.is_settled for it in found)
        return {it.name: it.definition.when.removeprefix("every ") for it in found}

    async def close(self) -> None:
        for name in tuple(self._hosts):
            await self.stop(name)


async def _run() -> None:
    """A task that does nothing."""


@pytest.fixture
async def fleet(url: str) -> AsyncIterator[Fleet]:
    async with await open_store(url) as store:
        made = Fleet(url, store)
        yield made
        await made.close()


async def test_hosts_that_start_at_once_make_each_series_once(fleet: Fleet) -> None:
    names = [f"host {number}" for number in range(5)]
    await asyncio.gather(*(fleet.start(name, V1) for name in names))
    assert await fleet.version() == V1


async def test_hosts_that_deploy_at_once_agree(fleet: Fleet) -> None:
    await fleet.start("old", V1)
    await fleet.stop("old")
    await asyncio.gather(*(fleet.start(f"new {number}", V2) for number in range(5)))
    assert await fleet.version() == V2


@pytest.mark.parametrize("turn", range(5))
async def test_different_versions_that_start_at_once_leave_one_whole_set(
    fleet: Fleet, turn: int
) -> None:
    versions = [V1, V2] if turn % 2 else [V2, V1]
    await asyncio.gather(*(fleet.start(f"{it}", it) for it in versions))
    live = await fleet.live()
    assert await fleet.version() in (V1, V2)
    rule = live["changed"].recurrence
    assert rule is not None
    assert rule.cron == (await fleet.version())["changed"]


async def test_an_older_host_that_restarts_during_a_deploy_changes_nothing(fleet: Fleet) -> None:
    await fleet.start("old 1", V1)
    await fleet.start("old 2", V1)
    await fleet.start("new", V2)
    before = await fleet.live()
    await fleet.stop("old 1")
    await fleet.start("old 1", V1)
    await fleet.clock.advance(10 * SEEN_EVERY)
    assert await fleet.version() == V2
    assert {name: job.id for name, job in (await fleet.live()).items()} == {
        name: job.id for name, job in before.items()
    }


async def test_a_rollback_takes_effect_when_the_last_newer_host_is_gone(fleet: Fleet) -> None:
    await fleet.start("old", V1)
    await fleet.start("new 1", V2)
    await fleet.start("new 2", V2)
    await fleet.stop("new 1")
    await fleet.clock.advance(2 * SEEN_EVERY)
    assert await fleet.version() == V2
    await fleet.stop("new 2")
    await fleet.clock.advance(2 * SEEN_EVERY)
    assert await fleet.version() == V1
    await fleet.start("new 3", V2)
    assert await fleet.version() == V1
    await fleet.stop("old")
    await fleet.clock.advance(2 * SEEN_EVERY)
    assert await fleet.version() == V2


async def test_a_host_that_crashed_counts_as_gone_after_a_while(fleet: Fleet) -> None:
    await fleet.start("old", V1)
    await fleet.start("new", V2)
    await fleet.crash("new")
    await fleet.clock.advance(GONE_AFTER / 2)
    assert await fleet.version() == V2
    await fleet.clock.advance(GONE_AFTER)
    assert await fleet.version() == V1
    await fleet.clock.advance(timedelta(minutes=5))
    assert await fleet.version() == V1
