"""Which workers there are."""

import os
import socket
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import msgspec
import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota.errors import StoreUnavailableError
from rota.fleet.presence import GONE_AFTER, SHOWN_EVERY, WORKERS, WorkerPresence, sweep_gone
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Document, DocumentWrite
from rota.worker import StopManner, WorkerSettings, list_workers


def a_presence(**fields: object) -> WorkerPresence:
    plain = {
        "id": "host:1:aa", "host": "host", "pid": 1, "queues": None, "tenants": None,
        "kinds": ("work",), "concurrency": 10, "version": "0", "started_at": NOW, "seen_at": NOW,
    } | fields  # fmt: skip
    return msgspec.convert(plain, WorkerPresence)


async def keep(store: MemoryStore, *presences: WorkerPresence) -> None:
    await store.write_each(
        [DocumentWrite(WORKERS, it.id, None, msgspec.json.encode(it)) for it in presences]
    )


class TroubledStore(MemoryStore):
    """A store whose documents are out of reach from time to time."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.write_count = 0

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        self.write_count += 1
        if self.error is not None:
            raise self.error
        return await super().write_each(writes)

    async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        if self.error is not None and collection == WORKERS:
            raise self.error
        async for page in super().scan(collection):
            yield page


async def test_a_running_worker_says_what_it_is(shop: Workshop) -> None:
    settings = WorkerSettings(queues={"mail", "bulk"}, tenants=["guild-7"], concurrency=3)
    shop.make_worker({"b.kind": succeed, "a.kind": succeed}, settings)
    shop.start()
    await shop.pass_time(SECOND)
    (seen,) = await list_workers(shop.store, shop.clock.now())
    assert seen == WorkerPresence(
        id=shop.worker.name,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=("bulk", "mail"),
        tenants=("guild-7",),
        kinds=("a.kind", "b.kind"),
        concurrency=3,
        batch=10,
        poll_ms=1_000,
        lease_ms=60_000,
        version=seen.version,
        started_at=NOW,
        seen_at=NOW,
    )
    assert seen.version


async def test_it_is_seen_again_and_again_while_it_runs(shop: Workshop) -> None:
    shop.start()
    await shop.pass_time(10 * MINUTE)
    (seen,) = await list_workers(shop.store, shop.clock.now())
    assert seen.started_at == NOW
    assert shop.clock.now() - seen.seen_at <= SHOWN_EVERY


async def test_a_worker_that_stops_is_forgotten_at_once(shop: Workshop) -> None:
    shop.start()
    await shop.pass_time(SECOND)
    await shop.finish()
    assert [page async for page in shop.store.scan(WORKERS)] == []


async def test_a_worker_that_is_cancelled_is_forgotten_too(shop: Workshop) -> None:
    shop.start()
    await shop.pass_time(SECOND)
    await shop.close()
    assert await list_workers(shop.store, shop.clock.now()) == []


async def test_a_worker_that_runs_once_says_nothing(shop: Workshop) -> None:
    await shop.add()
    shop.make_worker({"work": succeed})
    assert len(await shop.worker.run_once()) == 1
    assert [page async for page in shop.store.scan(WORKERS)] == []


async def test_a_worker_not_seen_for_a_minute_is_gone() -> None:
    store = MemoryStore()
    await keep(store, a_presence())
    assert len(await list_workers(store, NOW + GONE_AFTER - SECOND)) == 1
    assert await list_workers(store, NOW + GONE_AFTER) == []


async def test_workers_remove_the_signs_of_workers_that_are_gone(shop: Workshop) -> None:
    await keep(shop.hooked, a_presence(), a_presence(id="host:2:bb", seen_at=NOW + MINUTE))
    shop.start()
    await shop.pass_time(GONE_AFTER + SHOWN_EVERY)
    kept = await shop.store.read(WORKERS, ["host:1:aa", "host:2:bb", shop.worker.name])
    assert kept.keys() == {"host:2:bb", shop.worker.name}


async def test_a_sweep_leaves_alone_a_process_seen_meanwhile() -> None:
    class Raced(MemoryStore):
        async def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
            async for page in super().scan(collection):
                (document,) = page
                again = msgspec.json.encode(a_presence(seen_at=NOW + GONE_AFTER))
                write = DocumentWrite(WORKERS, document.key, document.version, again)
                assert await self.write_each([write]) == [document.version + 1]
                yield page

    store = Raced()
    await keep(store, a_presence())
    assert await sweep_gone(store, WORKERS, NOW + GONE_AFTER) == 0
    assert len(await store.read(WORKERS, ["host:1:aa"])) == 1


async def test_a_worker_that_was_swept_comes_back_with_its_next_sign(shop: Workshop) -> None:
    shop.start()
    await shop.pass_time(SECOND)
    document = (await shop.store.read(WORKERS, [shop.worker.name]))[shop.worker.name]
    await shop.store.write_each([DocumentWrite(WORKERS, shop.worker.name, document.version, None)])
    await shop.pass_time(SHOWN_EVERY)
    assert [it.id for it in await list_workers(shop.store, shop.clock.now())] == [shop.worker.name]


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), ValueError("no store of ours")])
async def test_a_store_that_keeps_no_signs_does_not_disturb_the_work(error: Exception) -> None:
    store = TroubledStore()
    shop = Workshop(store)
    shop.make_worker({"work": succeed})
    store.error = error
    shop.start()
    job = await shop.add()
    await shop.pass_time(2 * MINUTE)
    assert (await shop.look(job)).status == "COMPLETED"
    store.error = None
    await shop.pass_time(SHOWN_EVERY)
    assert len(await list_workers(store, shop.clock.now())) == 1
    store.error = StoreUnavailableError("away")
    assert (await shop.finish()).manner is StopManner.FINISHED


async def test_signs_of_life_are_few_under_load() -> None:
    store = TroubledStore()
    shop = Workshop(store)
    shop.make_worker({"work": succeed}, WorkerSettings(batch=100, concurrency=100))
    await shop.add_many(500)
    shop.start()
    await shop.pass_time(MINUTE)
    await shop.finish()
    assert store.write_count <= MINUTE / SHOWN_EVERY + 3


async def test_the_longest_at_work_comes_first_and_what_cannot_be_read_not_at_all() -> None:
    store = MemoryStore()
    later = a_presence(id="a", started_at=NOW + SECOND)
    await keep(store, later, a_presence(id="b"))
    await store.write_each([DocumentWrite(WORKERS, "c", None, b'{"id": 7}')])
    found = await list_workers(store, NOW + timedelta(seconds=2))
    assert [it.id for it in found] == ["b", "a"]
    assert await sweep_gone(store, WORKERS, NOW + 2 * GONE_AFTER) == 2
