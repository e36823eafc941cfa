"""Unique jobs: an equal job is not created while one waits or runs."""

import asyncio
from datetime import UTC, datetime, timedelta

from rota import Rota
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock
from rota.unique import UNIQUE, sweep_unique

START = datetime(2026, 3, 1, tzinfo=UTC)
app = Rota("memory://")


@app.task(unique=True)
async def refresh(page: int, force: bool = False) -> int:
    return page + force


@app.task(unique=["user_id"])
async def remind(user_id: int, text: str) -> str:
    return f"{user_id} {text}"


async def test_an_equal_job_is_returned_while_it_is_live() -> None:
    async with app:
        first = await refresh.enqueue(1)
        assert await refresh.enqueue(1) == first
        assert await refresh.enqueue(2) != first
        assert await refresh.enqueue(1, force=True) != first


async def test_callers_at_the_same_time_get_one_job() -> None:
    async with app:
        jobs = await asyncio.gather(*(refresh.enqueue(1) for _ in range(8)))
        assert len({job.id for job in jobs}) == 1


async def test_after_its_end_a_new_one_is_created() -> None:
    async with app.working():
        first = await refresh.enqueue(1)
        assert await first.result() == 1
        second = await refresh.enqueue(1)
        assert second != first
        assert await second.result() == 1


async def test_only_the_named_parameters_count() -> None:
    async with app:
        first = await remind.enqueue(1, "tea")
        assert await remind.enqueue(1, "coffee") == first
        assert await remind.enqueue(2, "tea") != first


async def test_a_named_job_that_was_never_created_is_created_under_its_name() -> None:
    async with app:
        session = await app.session()
        first = await refresh.enqueue(1)
        await session.store.delete("default", first.id)
        again = await refresh.enqueue(1)
        assert again == first
        assert await again.status()


async def test_documents_of_ended_jobs_are_swept() -> None:
    clock = VirtualClock(START, auto_jump=True)
    async with app.opened(MemoryStore(), clock) as session:
        waiting = await refresh.enqueue(1)
        ended = await refresh.using(delay="1s").enqueue(2)
        gone = await refresh.enqueue(3)
        await ended.cancel()
        await session.store.delete("default", gone.id)
        assert await sweep_unique(session) == 1
        await clock.advance(timedelta(hours=2))
        assert await sweep_unique(session) == 1
        left = [it async for page in session.store.scan(UNIQUE) for it in page]
        assert len(left) == 1
        assert waiting.id in left[0].body.decode()
