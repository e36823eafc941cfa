"""What only a sharded store does: placing tenants, splitting calls, and bearing a lost shard."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from secrets import token_hex
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from tests.servers.shared import new_database, shared_url, with_option

from rota.errors import (
    DuplicateJobError,
    StoreUnavailableError,
    UnknownDependencyError,
    UnsupportedConnectionError,
)
from rota.jobs import Job, decide_complete
from rota.runtime.wiring import open_store
from rota.stores.memory import MemoryStore
from rota.stores.protocol import Cap, DocumentWrite, HeldLease, Inserted, LeasePreview, LeaseRequest
from rota.stores.shards.members import Members
from rota.stores.shards.placement import COLLECTION, Placement
from rota.stores.shards.places import HELD_FOR
from rota.stores.shards.store import ShardedStore
from rota.stores.shards.view import PlacementView, join
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import DAY, MINUTE, NOW, SECOND, end, take
from rota.testing.portable_store_contract import dump_all

NAMES = ("one", "two", "three")
TENANT_OF = {Placement(NAMES).locate(tenant): tenant for tenant in "abc"}
"""A tenant of each shard."""


class Breakable(MemoryStore):
    """A store that can be out of reach."""

    is_down = False

    async def preview_lease(self, request: LeaseRequest, now: datetime) -> LeasePreview:
        self._refuse_when_down()
        return await super().preview_lease(request, now)

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        self._refuse_when_down()
        return await super().lease(request, now)

    async def insert(self, jobs: Any, now: datetime) -> list[Inserted]:
        self._refuse_when_down()
        return await super().insert(jobs, now)

    async def next_due_at(self, *arguments: Any) -> datetime | None:
        self._refuse_when_down()
        return await super().next_due_at(*arguments)

    async def find_expired(self, *arguments: Any) -> list[Job]:
        self._refuse_when_down()
        return await super().find_expired(*arguments)

    def _refuse_when_down(self) -> None:
        if self.is_down:
            raise StoreUnavailableError("The server does not answer")


class Shards:
    """Three stores in memory, opened as one by as many processes as a test wants."""

    def __init__(self) -> None:
        self.stores = {name: Breakable() for name in NAMES}
        self.clock = VirtualClock(NOW)

    async def open(self) -> ShardedStore:
        view = PlacementView(self.stores["one"], self.clock, await join(self.stores))
        return ShardedStore(Members(self.stores), view)


@pytest.fixture
def shards() -> Shards:
    return Shards()


@pytest.fixture
async def store(shards: Shards) -> AsyncIterator[ShardedStore]:
    opened = await shards.open()
    yield opened
    await opened.close()


def test_the_tenants_of_these_tests_lie_on_different_shards() -> None:
    assert set(TENANT_OF) == set(NAMES)


async def test_a_tenants_jobs_are_on_its_shard_only(shards: Shards, store: ShardedStore) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in "abc"], NOW)
    for name, member in shards.stores.items():
        counts = {tenant: await member.count(tenant) for tenant in "abc"}
        assert counts == {each: int(TENANT_OF[name] == each) for each in "abc"}


async def test_documents_are_on_the_home_shard(shards: Shards, store: ShardedStore) -> None:
    await store.write_each([DocumentWrite("gates", "a", None, b"body")])
    found = [await member.read("gates", ["a"]) for member in shards.stores.values()]
    assert [len(each) for each in found] == [1, 0, 0]


async def test_the_documents_of_the_shards_are_not_copied(store: ShardedStore) -> None:
    assert await store.read(COLLECTION, ["placement"])
    assert await dump_all(store) == []


@pytest.mark.parametrize("last", ["duplicate", "dependency", "id of another tenant"])
async def test_when_one_shard_refuses_no_shard_inserts(store: ShardedStore, last: str) -> None:
    first = a_job(tenant="a", idempotency_key="key", payload=1)
    await store.insert([first], NOW)
    refused = {
        "duplicate": a_job(tenant="a", idempotency_key="key", payload=2),
        "dependency": a_job(tenant="a", dependencies=[a_job().id]),
        "id of another tenant": replace(first, tenant="b", idempotency_key=None),
    }[last]
    others = [a_job(tenant=tenant) for tenant in "abc"]
    with pytest.raises((DuplicateJobError, UnknownDependencyError)):
        await store.insert([*others, refused], NOW)
    assert [await store.count(tenant) for tenant in "abc"] == [1, 0, 0]
    with pytest.raises((DuplicateJobError, UnknownDependencyError)):
        await store.check_insertion([*others, refused], NOW)


async def test_the_same_id_for_two_tenants_in_one_call_is_refused(store: ShardedStore) -> None:
    job = a_job(tenant="a")
    with pytest.raises(DuplicateJobError):
        await store.insert([job, replace(job, tenant="b")], NOW)
    assert await store.count("a") == 0


async def test_an_insert_that_is_cut_short_says_what_exists_and_can_be_repeated(
    shards: Shards, store: ShardedStore
) -> None:
    jobs = [a_job(tenant=TENANT_OF[name]) for name in NAMES]
    shards.stores["three"].is_down = True
    with pytest.raises(StoreUnavailableError) as cut_short:
        await store.insert(jobs, NOW)
    assert cut_short.value.details["inserted"] == sorted(TENANT_OF[n] for n in ("one", "two"))
    shards.stores["three"].is_down = False
    answers = await store.insert(jobs, NOW)
    assert [each.is_existing for each in answers] == [True, True, False]
    assert [each.job.id for each in answers] == [job.id for job in jobs]


async def test_a_transaction_is_for_the_jobs_of_one_shard(store: ShardedStore) -> None:
    with pytest.raises(UnsupportedConnectionError, match="several shards"):
        await store.insert_within(None, [a_job(tenant=tenant) for tenant in "ab"], NOW)
    with pytest.raises(UnsupportedConnectionError, match="in memory"):
        await store.insert_within(None, [a_job(tenant="a")], NOW)


async def test_changes_of_several_shards_are_answered_in_order(store: ShardedStore) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in "abcabc"], NOW)
    leased = await take(store)
    turned = leased[::-1]
    answers = await store.apply([decide_complete(job, NOW) for job in turned], NOW)
    assert [each.job and each.job.id for each in answers] == [job.id for job in turned]


async def test_leases_are_extended_on_every_shard(store: ShardedStore) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in "abc"], NOW)
    held = [HeldLease(job.id, job.last_token) for job in await take(store)]
    wrong = HeldLease(held[0].job_id, 99)
    keeper = store.make_keeper()
    for extended in (
        await store.extend([*held, wrong], NOW + DAY, NOW),
        await asyncio.to_thread(keeper.extend, [wrong, *held], NOW + DAY, NOW),
    ):
        assert Counter(extended) == Counter({True: 3, False: 1})
    assert await store.find_expired(NOW + DAY - SECOND, 10) == []


async def test_a_sweep_is_in_order_over_all_shards(store: ShardedStore) -> None:
    for step in range(9):
        await store.insert([a_job(tenant="abc"[step % 3])], NOW)
        await take(store, NOW + step * SECOND)
    met: list[Job] = []
    while page := await store.find_expired(NOW + DAY, 2, met[-1] if met else None):
        met += page
    assert [job.tenant for job in met] == list("abcabcabc")


async def test_a_shard_out_of_reach_does_not_hold_up_the_others(
    shards: Shards, store: ShardedStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in "abc" for _ in range(4)], NOW)
    lost = shards.stores["two"]
    lost.is_down = True
    first = await take(store, limit=2)
    second = await take(store)
    assert {job.tenant for job in [*first, *second]} == set("abc") - {TENANT_OF["two"]}
    assert len(first) + len(second) == 8
    assert await store.next_due_at(NOW) is None
    assert await store.find_expired(NOW + DAY, 1)
    assert caplog.text.count("Shard two is not available") == 1
    lost.is_down = False
    assert {job.tenant for job in await take(store)} == {TENANT_OF["two"]}


async def test_with_no_shard_in_reach_a_lease_fails(shards: Shards, store: ShardedStore) -> None:
    for member in shards.stores.values():
        member.is_down = True
    with pytest.raises(StoreUnavailableError):
        await take(store)


async def test_turns_go_on_from_lease_to_lease_over_shards(store: ShardedStore) -> None:
    tenants = sorted(f"t{number:02}" for number in range(12))
    await store.insert([a_job(tenant=tenant) for tenant in tenants for _ in range(5)], NOW)
    served: list[str] = []
    for _ in range(12):
        leased = await take(store, limit=5, after_tenant=served[-1] if served else "")
        served += [job.tenant for job in leased]
    assert served[:24] == tenants * 2
    assert Counter(served) == dict.fromkeys(tenants, 5)


SHARED = (Cap(queue="default", running=4),)


async def test_processes_that_race_never_exceed_a_shared_cap(shards: Shards) -> None:
    stores = [await shards.open() for _ in range(6)]
    await stores[0].insert([a_job(tenant=tenant) for tenant in "abc" for _ in range(20)], NOW)
    running: set[str] = set()
    total = 0
    for _ in range(25):
        calls = (take(each, limit=3, caps=SHARED) for each in stores)
        leased = [job for batch in await asyncio.gather(*calls) for job in batch]
        running |= {job.id for job in leased}
        total += len(leased)
        counts = [await _count_running(member) for member in shards.stores.values()]
        assert len(running) == sum(counts) <= 4
        for job in leased:
            await end(stores[0], job)
            running.remove(job.id)
    assert total == 60


async def _count_running(member: MemoryStore) -> int:
    return sum(depth.running_count for depth in await member.survey(NOW))


async def test_a_process_that_died_while_it_leased_closes_shared_scopes_for_a_while(
    shards: Shards, store: ShardedStore
) -> None:
    dead = await shards.open()
    await dead._places._take(NOW)
    await store.insert([a_job(tenant="a"), a_job(tenant="b", queue="free")], NOW)
    assert [job.queue for job in await take(store, caps=SHARED)] == ["free"]
    assert await take(store, NOW + HELD_FOR - SECOND, caps=SHARED) == []
    (leased,) = await take(store, NOW + HELD_FOR, caps=SHARED)
    assert leased.tenant == "a"


async def test_shared_scopes_are_closed_while_a_shard_is_out_of_reach(
    shards: Shards, store: ShardedStore
) -> None:
    """What it runs is not known, so a lease elsewhere could exceed the cap."""
    await store.insert(
        [a_job(tenant=tenant, queue=queue) for tenant in "abc" for queue in "xy"], NOW
    )
    shards.stores["one"].is_down = True
    leased = await take(store, caps=(Cap(queue="x", running=10),))
    assert {job.queue for job in leased} == {"y"}
    assert len(leased) == 2
    shards.stores["one"].is_down = False
    leased = await take(store, caps=(Cap(queue="x", running=2),))
    assert Counter(job.queue for job in leased) == Counter(x=2, y=1)


async def test_an_expired_right_is_not_given_back_in_the_name_of_another(shards: Shards) -> None:
    slow, fast = await shards.open(), await shards.open()
    late = NOW + HELD_FOR + SECOND
    async with slow._places.hold(NOW) as is_held:
        assert is_held
        assert await fast._places._take(late) is not None
    async with slow._places.hold(late) as is_held:
        assert not is_held


async def test_pruning_reaches_every_shard(store: ShardedStore) -> None:
    await store.insert([a_job(tenant=tenant) for tenant in "abc" for _ in range(7)], NOW)
    for number, job in enumerate(await take(store)):
        await end(store, job, now=NOW + timedelta(seconds=number))
    removed, place, calls = 0, None, 0
    while calls == 0 or place is not None:
        pruned = await store.prune(NOW + MINUTE, 6, None, place)
        removed, place, calls = removed + pruned.removed, pruned.place, calls + 1
    assert (removed, calls) == (21, 4)


async def insert_within(store: ShardedStore, url: str, job: Job) -> None:
    """Insert the job in a transaction of the caller's own on this database."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await store.insert_within(connection, [job], NOW)
    finally:
        await connection.close()


async def test_a_transaction_on_the_shard_of_its_tenant_inserts_there(
    postgres_database: str,
) -> None:
    """Both stores have the same schema, in different databases: only the mark tells them apart."""
    with new_database(shared_url()) as other:
        urls = dict(zip(("one", "two"), (postgres_database, other), strict=True))
        schema = f"shard_{token_hex(6)}"
        shards = [f"{name}={with_option(url, 'schema', schema)}" for name, url in urls.items()]
        async with await open_store(f"shards:{'|'.join(shards)}") as store:
            assert isinstance(store, ShardedStore)
            tenant = next(each for each in "abcdef" if store.shard_of(each) == "two")
            job = a_job(tenant=tenant)
            with pytest.raises(UnsupportedConnectionError, match="shard one"):
                await insert_within(store, urls["one"], job)
            await insert_within(store, urls["two"], job)
            assert [each.id for each in await take(store)] == [job.id]
