"""Followers of a tenant hear of changes, and of nothing else."""

from asyncio import TaskGroup
from datetime import UTC, datetime, timedelta
from typing import cast

from rota.jobs import JobFilter, Page
from rota.ops.changes import LOOK_EVERY, READ_EVERY, ChangeFeed
from rota.server.pages.live import LASTS_FOR, tell_changes
from rota.stores.memory import MemoryStore
from rota.stores.opened import OpenStore
from rota.stores.protocol import QueueDepth
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class RemoteStore:
    """Shows no version: a stand-in for a store behind a network, which counts its readers."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.read_count = 0

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        self.read_count += 1
        return list(await self._inner.survey(now, tenant))

    async def find(
        self, tenant: str, wanted: JobFilter, cursor: str | None = None, limit: int = 20
    ) -> Page:
        return await self._inner.find(tenant, wanted, cursor, limit)


Heard = list[tuple[float, bool]]


async def _hear(feed: ChangeFeed, clock: VirtualClock, heard: Heard) -> None:
    async for has_changed in feed.follow("default", lasts_for=MINUTE, beat_every=10 * LOOK_EVERY):
        heard.append(((clock.now() - NOW).total_seconds(), has_changed))


async def _listen(feed: ChangeFeed, clock: VirtualClock, inner: MemoryStore, count: int) -> Heard:
    """What followers hear in 12 seconds, in which a job is created after 6.2."""
    heard: Heard = []
    async with TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(_hear(feed, clock, heard))
        await clock.sleep(timedelta(seconds=6.2))
        await inner.insert([a_job()], clock.now())
        await clock.sleep(timedelta(seconds=5.8))
        feed.close()
    return heard


async def test_a_change_is_heard_at_the_next_look_and_a_beat_when_all_is_quiet() -> None:
    clock, store = VirtualClock(NOW), MemoryStore()
    feed = ChangeFeed(store, clock)
    heard = await clock.run(_listen(feed, clock, store, 1))
    assert heard == [(5.0, False), (6.5, True), (11.5, False)]
    assert feed.follower_count == 0


async def test_a_store_without_a_version_is_read_once_for_all_followers() -> None:
    clock, inner = VirtualClock(NOW), MemoryStore()
    remote = RemoteStore(inner)
    feed = ChangeFeed(cast("OpenStore", remote), clock)
    heard = await clock.run(_listen(feed, clock, inner, 3))
    assert [each for each in heard if each[1]] == 3 * [(8.0, True)]
    assert remote.read_count <= timedelta(seconds=13) / READ_EVERY + 1


async def test_a_stream_ends_by_itself_and_names_what_happened() -> None:
    clock, store = VirtualClock(NOW), MemoryStore()

    async def read() -> list[str]:
        return [text async for text in tell_changes(ChangeFeed(store, clock), "default")]

    lines = await clock.run(read())
    assert clock.now() - NOW == LASTS_FOR
    assert lines == ["retry: 500\n\n", *3 * ["event: beat\ndata: 1\n\n"]]
