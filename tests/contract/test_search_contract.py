"""Every store answers searches from its index as a walk over all jobs does."""

from datetime import timedelta
from random import Random

import pytest
from tests.unit.search.conftest import NOW
from tests.unit.search.corpus import expect_same_answers, find_ids, make_indexer, some_jobs

from rota import open_store
from rota.search import indexer
from rota.search.index import read_state
from rota.search.indexer import forget_index
from rota.stores.protocol import KeptJob
from rota.testing import VirtualClock, a_job

START = NOW - timedelta(hours=1)
QUERIES = ("welcome", "payload.order=7", "error:Timeout state:failed", "kind:mail* queue:slow")


async def test_the_index_of_each_store_answers_as_a_walk_does(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "MOST_LOOKED_AT", 5)
    monkeypatch.setattr(indexer, "SEGMENT_LENGTH", 100)
    monkeypatch.setattr(indexer, "FEWEST_INDEXED", 1)
    monkeypatch.setattr(indexer, "MERGED_AT_ONCE", 3)
    monkeypatch.setattr(indexer, "LEVELS", (20, 150))
    clock, chance = VirtualClock(NOW), Random(3)
    async with await open_store(store_url) as store:
        jobs = some_jobs(320, START, chance)
        await store.load([KeptJob(job) for job in jobs], NOW)
        making = make_indexer(store, clock)
        assert await making.run_once() == 320
        assert (await read_state(store, "default")).state.job_count == 320
        assert await expect_same_answers(store, QUERIES) > 100
        ready = next(job for job in jobs if not job.status.is_terminal)
        await store.amend("default", ready.id, {"payload": {"order": "é" * 80}}, NOW)
        last = a_job(name="Fresh", created_at=NOW - timedelta(seconds=30))
        await store.load([KeptJob(last)], NOW)
        await clock.advance(timedelta(minutes=1))
        await making.run_once()
        assert await find_ids(store, f"payload.order={'é' * 80}") == [ready.id]
        assert await find_ids(store, "fresh") == [last.id]
        assert await find_ids(store, f"id:{jobs[5].id}") == [jobs[5].id]
        await forget_index(store)
        assert (await read_state(store, "default")).version is None
