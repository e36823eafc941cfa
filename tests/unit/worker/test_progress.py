"""How far running jobs are."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, HookedStore, Workshop

from rota.errors import InvalidInputError, StoreUnavailableError
from rota.jobs import Job, JobStatus
from rota.stores.protocol import DocumentWrite
from rota.testing import a_job
from rota.worker import Context, Progress, read_progress
from rota.worker.progress import PROGRESS


class CountingStore(HookedStore):
    """Counts the writes of progress, and refuses them when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.write_count = 0
        self.is_down = False

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        if any(write.collection == PROGRESS for write in writes):
            self.write_count += 1
            if self.is_down:
                raise StoreUnavailableError("away")
        return await super().write_each(writes)


async def kept(shop: Workshop) -> list[str]:
    return [document.key async for page in shop.store.scan(PROGRESS) for document in page]


async def shown(shop: Workshop, job: Job) -> Progress | None:
    return (await read_progress(shop.store, [await shop.look(job)])).get(job.id)


@pytest.mark.parametrize("is_async", [True, False])
async def test_progress_is_shown_while_the_attempt_runs(shop: Workshop, is_async: bool) -> None:
    async def work(context: Context) -> None:
        context.progress(1, 4, "first")
        await shop.clock.sleep(MINUTE)

    def work_in_thread(context: Context) -> object:
        context.progress(1, 4, "first")
        return shop.clock.sleep(MINUTE)

    shop.make_worker({"work": work if is_async else work_in_thread})
    job = await shop.add()
    shop.start()
    await shop.pass_time(SECOND)
    progress = await shown(shop, job)
    assert progress == Progress(token=1, done=1, total=4, message="first", at=NOW)
    assert progress is not None
    assert progress.share == 0.25
    await shop.pass_time(MINUTE + SECOND)
    assert await shown(shop, job) is None
    assert await kept(shop) == []


async def test_reports_are_written_about_once_a_second_however_many_there_are() -> None:
    store = CountingStore()
    shop = Workshop(store)

    async def work(context: Context) -> None:
        for done in range(1_000):
            context.progress(done, 1_000)
            await shop.clock.sleep(timedelta(milliseconds=10))

    shop.make_worker({"work": work})
    jobs = await shop.add_many(5)
    shop.start()
    await shop.pass_time(9 * SECOND)
    assert store.write_count <= 10
    for job in jobs:
        progress = await shown(shop, job)
        assert progress is not None
        assert progress.done >= 750
    await shop.pass_time(5 * SECOND)
    assert await kept(shop) == []
    await shop.close()


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_report_right_before_the_end_leaves_nothing(shop: Workshop, is_async: bool) -> None:
    async def work(context: Context) -> None:
        context.progress(1, 1)

    def work_in_thread(context: Context) -> None:
        context.progress(1, 1)

    shop.make_worker({"work": work if is_async else work_in_thread})
    await shop.add_many(3)
    assert len(await shop.clock.run(shop.worker.run_once())) == 3
    assert await kept(shop) == []
    job = await shop.add()
    shop.start()
    await shop.pass_time(5 * SECOND)
    assert (await shop.look(job)).status is JobStatus.COMPLETED
    assert await kept(shop) == []


async def test_progress_of_a_dead_worker_is_replaced_and_never_shown(shop: Workshop) -> None:
    left = b'{"token":0,"done":9,"at":"2026-05-01T00:00:00Z"}'

    async def work(context: Context) -> None:
        await shop.clock.sleep(SECOND)
        context.progress(1)
        await shop.clock.sleep(SECOND)

    shop.make_worker({"work": work})
    job = await shop.add()
    await shop.store.write_each([DocumentWrite(PROGRESS, job.id, None, left)])
    shop.start()
    await shop.pass_time()
    assert await shown(shop, job) is None
    await shop.pass_time(SECOND)
    progress = await shown(shop, job)
    assert (progress and progress.done, progress and progress.share) == (1, None)
    await shop.pass_time(2 * SECOND)
    assert await kept(shop) == []


async def test_a_store_that_is_away_loses_no_job_and_gets_the_last_report() -> None:
    store = CountingStore()
    shop = Workshop(store)

    async def work(context: Context) -> None:
        context.progress(1)
        await shop.clock.sleep(MINUTE)

    shop.make_worker({"work": work})
    store.is_down = True
    job = await shop.add()
    shop.start()
    await shop.pass_time(5 * SECOND)
    assert await shown(shop, job) is None
    store.is_down = False
    await shop.pass_time(2 * SECOND)
    assert await shown(shop, job) is not None
    await shop.pass_time(MINUTE)
    assert (await shop.look(job)).status == "COMPLETED"
    await shop.close()


async def test_a_worker_that_stops_leaves_nothing(shop: Workshop) -> None:
    async def work(context: Context) -> None:
        context.progress(1)
        await shop.clock.sleep(SECOND)

    shop.make_worker({"work": work})
    await shop.add()
    shop.start()
    await shop.pass_time()
    assert len(await kept(shop)) == 1
    await shop.finish()
    assert await kept(shop) == []


async def test_a_context_without_a_worker_cannot_report() -> None:
    context = Context(a_job(), NOW)
    with pytest.raises(InvalidInputError, match="without a worker"):
        context.progress(1)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [("done", (-1,)), ("done", ("1",)), ("total", (1, True)), ("message", (1, 2, 3))],
)
async def test_bad_reports_are_refused_by_name(
    shop: Workshop, field: str, arguments: tuple[int, ...]
) -> None:
    errors: list[str] = []

    async def work(context: Context) -> None:
        with pytest.raises(InvalidInputError) as refused:
            context.progress(*arguments)  # type: ignore[arg-type]
        errors.append(str(refused.value))

    shop.make_worker({"work": work})
    await shop.add()
    await shop.worker.run_once()
    assert len(errors) == 1
    assert errors[0].startswith(field)
