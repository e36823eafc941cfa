import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.spec.stage import SpyStore

from rota import open_store
from rota.errors import StoreUnavailableError
from rota.fleet.identity import HOST, process_started
from rota.scheduler import presence
from rota.scheduler.presence import INSTANCES, Announcement, Presence
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentStore, DocumentWrite, Reach
from rota.testing import VirtualClock

TEN = datetime(2027, 1, 4, 10, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SILENT_FOR = 30 * SECOND


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[DocumentStore]:
    """A store that other processes may use too."""
    async with await open_store(f"sqlite:///{tmp_path / 'rota.db'}") as opened:
        yield opened


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(TEN)


def make(store: DocumentStore, clock: VirtualClock, name: str = "me") -> Presence:
    return Presence(store, clock, name, SILENT_FOR)


async def announced(store: DocumentStore) -> list[str]:
    return [document.key async for page in store.scan(INSTANCES) for document in page]


async def put(store: DocumentStore, name: str, **fields: object) -> None:
    defaults = {"host": "elsewhere", "process_id": 1, "process_started": "7", "seen_at": TEN}
    body = msgspec.json.encode(Announcement(**{**defaults, **fields}))  # type: ignore[arg-type] # as told
    await store.write_all([DocumentWrite(INSTANCES, name, None, body)])


async def test_an_instance_lives_as_long_as_its_task(
    store: DocumentStore, clock: VirtualClock
) -> None:
    me, other = make(store, clock), make(store, clock, "other")
    life = asyncio.create_task(clock.sleep(SECOND))
    me.live_as(life)
    await me.announce()
    assert await other.find_living() == {"me"}
    await clock.advance(SECOND)
    assert await other.find_living() == frozenset()
    await other.remove_dead()
    assert await announced(store) == []


async def test_a_withdrawn_instance_is_not_found(store: DocumentStore, clock: VirtualClock) -> None:
    me = make(store, clock)
    life = asyncio.create_task(clock.sleep(SECOND))
    me.live_as(life)
    await me.announce()
    await me.announce()
    await me.withdraw()
    await me.withdraw()
    assert await announced(store) == []
    assert await me.find_living() == frozenset()
    await clock.advance(SECOND)


async def test_an_announcement_whose_reply_was_lost_is_repeated(
    store: DocumentStore, clock: VirtualClock
) -> None:
    spy = SpyStore(store, clock)
    me = make(spy, clock)
    spy.losing_replies = True
    spy.errors["write_each"] = StoreUnavailableError("lost")
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await me.announce()
    spy.losing_replies = False
    spy.errors.clear()
    await me.announce()
    await me.announce()
    assert await announced(store) == ["me"]
    await me.withdraw()
    assert await announced(store) == []


async def test_an_instance_wrongly_taken_for_dead_announces_itself_again(
    store: DocumentStore, clock: VirtualClock
) -> None:
    me = make(store, clock)
    await me.announce()
    await store.write_all([DocumentWrite(INSTANCES, "me", 1, None)])
    await me.announce()
    assert await announced(store) == ["me"]


@pytest.mark.parametrize("skew", [timedelta(0), timedelta(minutes=10), timedelta(minutes=-10)])
async def test_an_instance_on_another_host_is_alive_while_it_announces_itself(
    store: DocumentStore, clock: VirtualClock, skew: timedelta
) -> None:
    me = make(store, clock)
    await put(store, "far", seen_at=TEN + skew)
    assert await me.find_living() == {"far"}
    await clock.advance(SILENT_FOR - timedelta(microseconds=1))
    assert await me.find_living() == {"far"}
    await clock.advance(timedelta(microseconds=1))
    assert await me.find_living() == frozenset()


async def test_each_announcement_of_another_host_restarts_its_silence(
    store: DocumentStore, clock: VirtualClock
) -> None:
    me = make(store, clock)
    await put(store, "far", seen_at=TEN)
    assert await me.find_living() == {"far"}
    await clock.advance(SILENT_FOR - SECOND)
    (document,) = (await store.read(INSTANCES, ["far"])).values()
    announced_before = msgspec.json.decode(document.body, type=Announcement)
    body = msgspec.json.encode(msgspec.structs.replace(announced_before, seen_at=TEN + SECOND))
    await store.write_each([DocumentWrite(INSTANCES, "far", document.version, body)])
    assert await me.find_living() == {"far"}
    await clock.advance(SILENT_FOR - SECOND)
    assert await me.find_living() == {"far"}


class NetworkStore(MemoryStore):
    """In memory, but as if other hosts could reach it."""

    reach = Reach.NETWORK


async def test_a_very_long_silence_counts_at_once(clock: VirtualClock) -> None:
    store = NetworkStore()
    await put(store, "far", seen_at=TEN - 10 * SILENT_FOR - SECOND)
    await put(store, "slow clock", seen_at=TEN - 10 * SILENT_FOR)
    assert await make(store, clock).find_living() == {"slow clock"}


async def test_an_announcement_is_repeated_only_where_it_matters(
    store: DocumentStore, clock: VirtualClock
) -> None:
    spy = SpyStore(store, clock)
    me = make(spy, clock)
    me.live_as(life := asyncio.create_task(clock.sleep(SECOND)))
    await me.announce()
    calls = len(spy.calls)
    await me.find_living()
    await me.keep_alive()
    assert not [call for call in spy.calls[calls:] if "write" in str(call)]

    await store.write_each([DocumentWrite(INSTANCES, "me", 1, None)])
    await me.find_living()
    await me.keep_alive()
    assert await announced(store) == ["me"]

    await put(store, "far")
    (before,) = (await store.read(INSTANCES, ["me"])).values()
    await me.find_living()
    await me.keep_alive()
    (after,) = (await store.read(INSTANCES, ["me"])).values()
    assert after.version > before.version
    await clock.advance(SECOND)
    await life


async def test_a_process_of_this_host_is_alive_while_it_exists(
    store: DocumentStore, clock: VirtualClock
) -> None:
    me = make(store, clock)
    child = subprocess.Popen(  # noqa: ASYNC220 - it does not block, and only exists
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    )
    with child:
        started = process_started(child.pid)
        fields = {"host": HOST, "process_id": child.pid}
        await put(store, "child", **fields, process_started=started)
        await put(store, "its id before", **fields, process_started="another start")
        assert await me.find_living() == {"child"}
        child.communicate(b"\n")
    assert await me.find_living() == frozenset()


async def test_an_unreadable_announcement_counts_as_dead(
    store: DocumentStore, clock: VirtualClock
) -> None:
    await store.write_all([DocumentWrite(INSTANCES, "odd", None, b"?")])
    me = make(store, clock)
    assert await me.find_living() == frozenset()
    await me.remove_dead()
    assert await announced(store) == []


async def test_in_memory_nothing_is_announced(clock: VirtualClock) -> None:
    store = MemoryStore()
    await make(store, clock).announce()
    assert await announced(store) == []


@pytest.mark.parametrize("is_graceful", [True, False])
async def test_peers_in_this_process_hear_of_a_departure(
    clock: VirtualClock, is_graceful: bool
) -> None:
    store, heard = MemoryStore(), list[str]()
    lives = {}
    for name in ("leaver", "peer", "stranger"):
        made = make(store if name != "stranger" else MemoryStore(), clock, name)
        lives[name] = (made, asyncio.create_task(clock.sleep(timedelta(hours=1))))
        made.live_as(lives[name][1], partial(heard.append, name))
    leaver, life = lives["leaver"]
    if is_graceful:
        await leaver.withdraw()
    else:
        life.cancel()
    await clock.advance(SECOND)
    assert heard == ["peer"]
    for _, task in lives.values():
        task.cancel()


def test_a_life_on_a_closed_loop_is_over() -> None:
    loop = asyncio.new_event_loop()
    made = make(MemoryStore(), VirtualClock(TEN), "left behind")

    async def live() -> None:
        await loop.create_future()

    life = loop.create_task(live())
    made.live_as(life)
    loop.run_until_complete(asyncio.wait({life}, timeout=0))
    loop.close()
    presence._forget_ended()
    assert "left behind" not in presence._local_instances
    life.get_coro().close()  # it will never be resumed
