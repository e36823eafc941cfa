"""Jobs that ended long ago are removed, a few at a time."""

from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota.events import JobsPruned
from rota.jobs import JobStatus
from rota.worker import WorkerSettings
from rota.worker.pruner import PRUNED_AT_ONCE


async def test_jobs_are_removed_when_their_time_is_over(shop: Workshop) -> None:
    shop.make_worker({"work": succeed}, WorkerSettings(retention=10 * MINUTE))
    job = await shop.add()
    later = await shop.add(due_at=NOW + 8 * MINUTE)
    shop.start()
    await shop.pass_time(9 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    await shop.pass_time(3 * MINUTE)
    kept = await shop.store.get(job.tenant, [job.id, later.id])
    assert set(kept) == {later.id}
    assert [event.count for event in shop.told(JobsPruned)] == [1]


async def test_without_retention_all_are_kept(shop: Workshop) -> None:
    shop.make_worker({"work": succeed})
    job = await shop.add()
    shop.start()
    await shop.pass_time(60 * MINUTE)
    assert (await shop.look(job)).status is JobStatus.COMPLETED


async def test_many_are_removed_in_batches_with_pauses(shop: Workshop) -> None:
    pruned_at = []
    whole = shop.hooked.prune

    async def prune(ended_before: object, limit: int) -> int:
        count = await whole(ended_before, limit)  # type: ignore[arg-type]  # handed through
        if count:
            pruned_at.append((shop.clock.now(), count))
        return count

    shop.hooked.prune = prune  # type: ignore[method-assign]  # looked at on the way
    done = [await shop.add(status=JobStatus.READY) for _ in range(PRUNED_AT_ONCE + 1)]
    settings = WorkerSettings(batch=1_000, concurrency=1_000, retention=SECOND)
    shop.make_worker({"work": succeed}, settings)
    shop.start()
    await shop.pass_time(2 * MINUTE)
    assert [count for _, count in pruned_at] == [PRUNED_AT_ONCE, 1]
    assert pruned_at[1][0] > pruned_at[0][0]
    assert await shop.store.get("default", [job.id for job in done]) == {}
