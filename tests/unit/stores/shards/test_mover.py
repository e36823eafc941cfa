"""Moving a tenant while it works, killed at every call."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.stores.shards.moving import (
    MOVING,
    NAMES,
    SOURCE,
    START,
    TARGET,
    Death,
    Killed,
    World,
)

from rota.clock.loop import in_flight
from rota.errors import InvalidInputError, MoveConflictError, TenantMovingError
from rota.jobs import JobStatus, decide_complete, make_job_id
from rota.runtime.wiring import open_store
from rota.stores.memory import MemoryStore
from rota.stores.protocol import HeldLease, KeptJob, QueueDepth, UnreadableJob
from rota.stores.shards.mover import PAGE, Moved, Mover, _Run
from rota.stores.shards.store import ShardedStore
from rota.testing import VirtualClock
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import end, take
from rota.testing.portable_store_contract import dump_all

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def a_world() -> World:
    stores = {name: MemoryStore() for name in NAMES}
    return World(stores, VirtualClock(START))


async def live(world: World, death: Death | None = None, rounds: int = 20) -> None:
    """Work on the store, move a tenant, be killed perhaps, and complete the move later."""
    await world.start_series()
    workers = [asyncio.create_task(world.work(name)) for name in ("w1", "w2")]
    producer = asyncio.create_task(world.produce(rounds))
    await world.clock.sleep(timedelta(seconds=3))
    try:
        await Mover(await world.open(death), world.clock).move(MOVING, TARGET)
    except Killed:
        await world.clock.sleep(2 * MINUTE)
        await Mover(await world.open(), world.clock).move(MOVING, TARGET)
    await producer
    await world.rest()
    await asyncio.gather(*workers)


async def test_a_tenant_moves_while_it_works() -> None:
    world = a_world()
    await world.run(live(world, rounds=40))
    await world.judge(TARGET)
    moved_during = [each for each in world.executions if each.ended_at - each.began_at > 5 * SECOND]
    assert len(world.executions) > 240
    assert len(moved_during) > 10


async def count_calls() -> int:
    death = Death()
    world = a_world()
    await world.run(live(world, death, rounds=6))
    return death.call_count


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
async def test_killed_at_any_call_a_move_completes_on_the_next_run(is_after: bool) -> None:
    total = await count_calls()
    assert total > 40
    for at in range(1, total + 1):
        world, death = a_world(), Death(at, is_after=is_after)
        await world.run(live(world, death, rounds=6))
        assert death.call_count == at
        await world.judge(TARGET)


@pytest.mark.parametrize("at", range(3, 60, 8))
async def test_a_move_between_files_completes_on_the_next_run(tmp_path: Path, at: int) -> None:
    async with AsyncExitStack() as stack:
        opened = {name: await open_store(f"sqlite:///{tmp_path}/{name}.db") for name in NAMES}
        for store in opened.values():
            await stack.enter_async_context(store)
        world = World(opened, VirtualClock(START))
        await world.run(live(world, Death(at, is_after=at % 2 == 0), rounds=6))
        await world.judge(TARGET)


async def open_quiet() -> tuple[World, ShardedStore, Mover]:
    """A store on which nothing happens by itself."""
    world = a_world()
    return world, await world.open(), Mover(await world.open(), world.clock)


async def stop_in(phase: str, world: World, store: ShardedStore) -> None:
    """Let a mover work until the tenant is in this phase, and die there."""
    moving = asyncio.create_task(Mover(await world.open(), world.clock).move(MOVING, TARGET))
    while (it := store.view.placement.moves.get(MOVING)) is None or it.phase != phase:
        await world.clock.sleep(SECOND)
        await store.view.current()
    moving.cancel()
    await asyncio.wait([moving])


async def test_nothing_is_written_or_leased_for_a_frozen_tenant() -> None:
    world, store, _ = await open_quiet()
    other, job = a_job(tenant="b"), a_job(tenant=MOVING)
    await store.insert([other, job], START)
    leased = await take(store, START)

    async def check() -> None:
        await stop_in("frozen", world, store)
        now = world.clock.now()
        mine = next(each for each in leased if each.tenant == MOVING)
        theirs = next(each for each in leased if each.tenant == "b")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: store.insert([a_job(tenant=MOVING)], now),
            lambda: store.insert([a_job(tenant="b"), a_job(tenant=MOVING)], now),
            lambda: store.amend(MOVING, job.id, {"priority": 9}, now),
            lambda: store.delete(MOVING, job.id),
            lambda: store.apply([decide_complete(it, now) for it in (mine, theirs)], now),
            lambda: store.load([KeptJob(a_job(tenant=MOVING))], now),
        ]
        for call in calls:
            with pytest.raises(TenantMovingError) as refusal:
                await call()
            assert refusal.value.details["target"] == TARGET
        assert (await store.get("b", [other.id]))[other.id].status is JobStatus.COMPLETED
        assert (await store.get(MOVING, [job.id]))[job.id].status is JobStatus.RUNNING
        held = [HeldLease(mine.id, mine.last_token)]
        assert await store.extend(held, now + MINUTE, now) == [True]
        assert await store.find_expired(now + MINUTE * 9, 5) == []

    await world.run(check())


async def test_a_freeze_whose_mover_has_died_ends_by_itself() -> None:
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING) for _ in range(3)], START)

    async def check() -> None:
        await stop_in("frozen", world, store)
        assert await take(store, world.clock.now()) == []
        await world.clock.sleep(MINUTE)
        assert len(await take(store, world.clock.now(), limit=2)) == 2
        await store.insert([a_job(tenant=MOVING)], world.clock.now())
        moved = await mover.move(MOVING, TARGET)
        assert moved == Moved(MOVING, SOURCE, TARGET, 4)

    await world.run(check())
    assert len(await take(store, world.clock.now())) == 2
    assert await world.stores[SOURCE].count(MOVING) == 0


async def test_counts_are_right_at_every_phase() -> None:
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=tenant) for tenant in (MOVING, MOVING, "b")], START)
    (leased, *_) = await take(store, START, limit=1, tenants=[MOVING])
    expected = [QueueDepth(queue="default", due_count=2, running_count=1, oldest_due_at=START)]

    async def check() -> None:
        for phase in ("frozen", "removing"):
            await stop_in(phase, world, store)
            for process in (store, await world.open()):
                depths = await process.survey(START)
                assert [replace(it, oldest_due_at=START) for it in depths] == expected
                assert len([it for it in await dump_all(process) if isinstance(it, KeptJob)]) == 3
            assert await store.count(MOVING) == 2
            await world.clock.sleep(MINUTE)
        await mover.finish()

    await world.run(check())
    assert store.view.placement.moves != {}
    assert (await store.view.change(lambda known: known)).moves == {}
    held = [HeldLease(leased.id, leased.last_token)]
    assert await store.extend(held, START + MINUTE, START) == [True]


async def test_a_second_mover_is_refused_while_the_first_lives() -> None:
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING)], START)

    async def check() -> None:
        first = asyncio.create_task(mover.move(MOVING, TARGET))
        await world.clock.sleep(SECOND)
        second = Mover(await world.open(), world.clock)
        with pytest.raises(MoveConflictError, match="Another process moves"):
            await second.move(MOVING, TARGET)
        with pytest.raises(MoveConflictError, match=f'moving to shard "{TARGET}"'):
            await second.move(MOVING, SOURCE)
        assert await second.finish() == []
        assert await first == Moved(MOVING, SOURCE, TARGET, 1)
        assert await second.move(MOVING, TARGET) is None

    await world.run(check())


async def test_a_mover_that_slept_too_long_does_not_complete_its_freeze() -> None:
    """Its tenant was thawed meanwhile, and worked on: the mover begins the freeze anew."""
    world, store, mover = await open_quiet()
    job = a_job(tenant=MOVING)
    await store.insert([job], START)

    async def check() -> None:
        moving = asyncio.create_task(mover.move(MOVING, TARGET))
        while store.view.placement.frozen(MOVING) is None:
            await world.clock.sleep(SECOND)
            await store.view.current()
        await store.view.change(
            lambda known: known.with_move(MOVING, replace(known.moves[MOVING], phase="copying"))
        )
        late = a_job(tenant=MOVING)
        await store.insert([late], world.clock.now())
        assert await moving == Moved(MOVING, SOURCE, TARGET, 2)
        await store.view.change(lambda known: known)
        assert set(await store.get(MOVING, [job.id, late.id])) == {job.id, late.id}

    await world.run(check())


async def test_deletions_and_changes_after_the_first_copy_reach_the_target() -> None:
    world, store, mover = await open_quiet()
    parent, child = a_job(tenant=MOVING), a_job(tenant=MOVING)
    gone, kept = a_job(tenant=MOVING), a_job(tenant=MOVING)
    grandchild = a_job(tenant=MOVING, dependencies=[parent.id])
    await store.insert([parent, child, gone, kept, grandchild], START)
    for job in await take(store, START):
        await end(store, job)
    for job in await take(store, START):
        await end(store, job)
    target = world.stores[TARGET]
    copies = [each for each in await dump_all(world.stores[SOURCE]) if isinstance(each, KeptJob)]
    changed = [it._replace(job=replace(it.job, last_error="old")) for it in copies]
    await target.load(changed, START)
    await store.delete(MOVING, gone.id)
    await world.run(mover.move(MOVING, TARGET))
    await store.view.change(lambda known: known)
    assert await target.count(MOVING) == 4
    found = await store.get(MOVING, [job.id for job in (parent, child, kept, grandchild)])
    assert {job.last_error for job in found.values()} == {None}
    assert found[grandchild.id].dependencies == (parent.id,)


async def test_waiting_jobs_are_copied_only_once_every_process_knows_of_the_move() -> None:
    """A process that does not know it would lease the copies."""
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING)], START)

    async def check() -> None:
        moving = asyncio.create_task(mover.move(MOVING, TARGET))
        await world.clock.sleep(store.view.timing.settled_after - SECOND)
        assert await world.stores[TARGET].count(MOVING) == 0
        await moving

    await world.run(check())
    assert await world.stores[TARGET].count(MOVING) == 1


async def test_a_key_that_was_freed_and_given_again_after_the_first_copy_is_moved() -> None:
    world, store, mover = await open_quiet()
    first, again = (a_job(tenant=MOVING, idempotency_key="k") for _ in range(2))
    await store.insert([first], START)
    (taken,) = await take(store, START)
    await end(store, taken)
    copies = [each for each in await dump_all(world.stores[SOURCE]) if isinstance(each, KeptJob)]
    await world.stores[TARGET].load(copies, START)
    await store.delete(MOVING, first.id)
    await store.insert([again], START)
    await world.run(mover.move(MOVING, TARGET))
    await store.view.change(lambda known: known)
    assert set(await store.get(MOVING, [first.id, again.id])) == {again.id}


async def test_jobs_go_after_all_that_depend_on_them_and_stay_below_an_unreadable_one(
    tmp_path: Path,
) -> None:
    first, held = a_job(tenant=MOVING), a_job(tenant=MOVING)
    second = a_job(tenant=MOVING, dependencies=[first.id])
    wide = [a_job(tenant=MOVING, dependencies=[second.id]) for _ in range(PAGE + 20)]
    unreadable = UnreadableJob(make_job_id(START, 7), MOVING, "q", (held.id,), b"{}")
    async with AsyncExitStack() as stack:
        opened = {name: await open_store(f"sqlite:///{tmp_path}/{name}.db") for name in NAMES}
        for each in opened.values():
            await stack.enter_async_context(each)
        world = World(opened, VirtualClock(START))
        store = await world.open()
        await store.insert([first, second, *wide, held], START)
        await opened[SOURCE].load([unreadable], START)
        await world.run(_delete_there(world, [first.id, held.id]))
        assert await opened[SOURCE].count(MOVING) == 2  # the unreadable one is counted
        assert set(await opened[SOURCE].get(MOVING, [first.id, held.id])) == {held.id}


async def _delete_there(world: World, job_ids: list[str]) -> None:
    """Have a mover remove jobs from the source."""
    store = await world.open()
    mover = Mover(store, world.clock)
    await store.view.change(lambda known: mover._claim(known, MOVING, TARGET))
    run = _Run(store, world.clock, mover._report, MOVING)
    await run._delete(world.stores[SOURCE], job_ids)


async def test_a_job_inserted_by_a_call_that_took_far_too_long_is_not_lost() -> None:
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING)], START)
    late = a_job(tenant=MOVING)

    async def check() -> None:
        moving = asyncio.create_task(mover.move(MOVING, TARGET))
        while (it := store.view.placement.moves.get(MOVING)) is None or it.phase != "removing":
            await world.clock.sleep(SECOND)
            await store.view.current()
        await world.stores[SOURCE].insert([late], world.clock.now())
        await moving

    await world.run(check())
    assert len(await take(await world.open(), world.clock.now())) == 2
    assert await world.stores[SOURCE].count(MOVING) == 0


async def test_a_keeper_follows_a_tenant_to_its_new_shard() -> None:
    """The worker's loop makes no call to the store: the keeper has the placement read."""
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING)], START)
    (leased,) = await take(store, START)
    keeper, held = store.make_keeper(), [HeldLease(leased.id, leased.last_token)]

    async def check() -> None:
        moving = asyncio.create_task(mover.move(MOVING, TARGET))
        answers = []
        while not moving.done():
            await world.clock.sleep(SECOND)
            now = world.clock.now()
            with in_flight():
                answers += await asyncio.to_thread(keeper.extend, held, now + MINUTE, now)
        assert set(answers) == {True}
        assert len(answers) > 15

    await world.run(check())


async def test_a_shard_that_does_not_exist_is_refused() -> None:
    _, _, mover = await open_quiet()
    with pytest.raises(InvalidInputError, match='"four" is not a shard'):
        await mover.move(MOVING, "four")


async def test_a_switch_fails_when_the_tenant_was_thawed_after_the_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mover stood still between its last look at the source and the switch."""
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING)], START)
    late, copy_rest = a_job(tenant=MOVING), _Run._copy_rest

    async def stand_still(run: _Run) -> int:
        job_count = await copy_rest(run)
        monkeypatch.setattr(_Run, "_copy_rest", copy_rest)
        await store.view.change(
            lambda known: known.with_move(MOVING, replace(known.moves[MOVING], phase="copying"))
        )
        await store.insert([late], world.clock.now())
        return job_count

    monkeypatch.setattr(_Run, "_copy_rest", stand_still)
    assert await world.run(mover.move(MOVING, TARGET)) == Moved(MOVING, SOURCE, TARGET, 2)
    assert await (await world.open()).get(MOVING, [late.id])


async def test_a_copied_lease_lasts_at_least_as_long_as_its_holder_knows() -> None:
    world, store, mover = await open_quiet()
    await store.insert([a_job(tenant=MOVING)], START)
    (leased,) = await take(store, START)
    assert leased.lease is not None
    await world.run(mover.move(MOVING, TARGET))
    moved = (await (await world.open()).get(MOVING, [leased.id]))[leased.id]
    assert moved.lease is not None
    assert moved.lease.until >= leased.lease.until
    assert (moved.lease.token, moved.last_token) == (leased.lease.token, leased.last_token)
