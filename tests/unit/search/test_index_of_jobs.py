"""The index in the background, and searches that use it."""

from collections import Counter
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.search.conftest import NOW
from tests.unit.search.corpus import (
    QUERIES,
    expect_same_answers,
    find_ids,
    make_indexer,
    some_jobs,
)

from rota.jobs import Job, JobState, JobStatus, find_state
from rota.ops import job_counts
from rota.ops.job_counts import count_states
from rota.ops.search import search_jobs, suggest
from rota.search import index, indexer, lookup
from rota.search.index import BLOCKS, HEADS, OPEN_JOBS, STATES, read_state
from rota.search.indexer import forget_index
from rota.search.query import FIELDS, parse_query
from rota.stores.memory import MemoryStore
from rota.stores.protocol import KeptJob
from rota.testing import VirtualClock, a_job

START = NOW - timedelta(hours=2)

pytestmark = pytest.mark.usefixtures("small_parts")


async def load(store: MemoryStore, jobs: list[Job]) -> None:
    await store.load([KeptJob(job) for job in jobs], NOW)


async def count_documents(store: MemoryStore) -> int:
    count = 0
    for collection in (STATES, HEADS, BLOCKS, OPEN_JOBS):
        async for page in store.scan(collection):
            count += len(page)
    return count


async def test_the_index_answers_as_a_walk_does(store: MemoryStore, clock: VirtualClock) -> None:
    chance, making = Random(7), make_indexer(store, clock)
    for stage in range(3):
        await load(store, some_jobs(100, START + timedelta(minutes=stage), chance))
        added = await making.run_once()
        assert added >= 90
        assert await expect_same_answers(store) > 20
    state = (await read_state(store, "default")).state
    assert len(state.ranges) == 1
    assert state.ranges[0].oldest is None
    assert state.job_count >= 290
    assert len(state.segments) < 10


async def test_a_half_built_index_is_used_as_far_as_it_goes(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(8)
    await load(store, some_jobs(70, START, chance))
    making = make_indexer(store, clock)
    collect, calls = indexer.TenantTurn._fill_gap, [1]

    async def fill_some(turn: indexer.TenantTurn) -> int:
        calls[0] -= 1
        return await collect(turn) if calls[0] >= 0 else 0

    monkeypatch.setattr(indexer.TenantTurn, "_fill_gap", fill_some)
    await making.run_once()
    await expect_same_answers(store)
    await load(store, some_jobs(50, START + timedelta(minutes=5), chance))
    calls[0] = 1
    await making.run_once()
    assert len((await read_state(store, "default")).state.ranges) == 2
    await expect_same_answers(store)
    calls[0] = 100
    await making.run_once()
    assert len((await read_state(store, "default")).state.ranges) == 1
    await expect_same_answers(store)


async def test_an_error_is_found_at_once_and_a_changed_payload_after_another_look(
    store: MemoryStore, clock: VirtualClock
) -> None:
    jobs = [a_job(name=f"job {n}", created_at=START + timedelta(seconds=n)) for n in range(60)]
    await store.insert(jobs, START)
    await make_indexer(store, clock).run_once()
    failed = replace(jobs[3], status=JobStatus.FAILED, last_error="BoomError: x")
    store._tables.put(failed)
    assert await find_ids(store, "error:Boom") == [jobs[3].id]
    await store.amend("default", jobs[4].id, {"payload": {"order": 77}}, NOW)
    await clock.advance(timedelta(minutes=1))
    await make_indexer(store, clock).run_once()
    assert await find_ids(store, "payload.order=77") == [jobs[4].id]
    assert await find_ids(store, "error:BoomError") == [jobs[3].id]


async def test_open_jobs_are_read_again_less_and_less_often(
    store: MemoryStore, clock: VirtualClock
) -> None:
    jobs = [a_job(created_at=START, due_at=NOW + timedelta(hours=n // 30)) for n in range(60)]
    await store.insert(jobs, START)
    making = make_indexer(store, clock)
    await making.run_once()
    delays = []
    for _ in range(3):
        page = min((await read_state(store, "default")).state.pages, key=lambda it: it.again_at)
        delays.append(page.again_at - clock.now())
        await clock.advance_to(page.again_at)
        await making.run_once()
    assert delays[0] < delays[-1]
    for job in jobs:
        store._tables.put(replace(job, status=JobStatus.COMPLETED))
    await clock.advance(timedelta(hours=30))
    await making.run_once()
    await clock.advance(timedelta(hours=30))
    await making.run_once()
    assert (await read_state(store, "default")).state.pages == ()


async def test_jobs_that_are_gone_are_not_found_and_leave_the_index(
    store: MemoryStore, clock: VirtualClock
) -> None:
    jobs = some_jobs(200, START, Random(9))
    await load(store, jobs)
    making = make_indexer(store, clock)
    await making.run_once()
    for job in jobs[:150]:
        await store.delete("default", job.id)
    await expect_same_answers(store)
    for _ in range(12):
        await clock.advance(timedelta(hours=7))
        await making.run_once()
    assert (await read_state(store, "default")).state.job_count < 100
    await expect_same_answers(store)


async def test_a_job_that_is_committed_late_is_added(
    store: MemoryStore, clock: VirtualClock
) -> None:
    recent = NOW - timedelta(minutes=5)
    await load(store, some_jobs(60, recent, Random(10)))
    making = make_indexer(store, clock)
    await making.run_once()
    late = a_job(name="latecomer", created_at=recent + timedelta(seconds=20))
    await load(store, [late])
    assert await find_ids(store, "latecomer") == []
    await clock.advance(timedelta(minutes=6))
    await making.run_once()
    assert await find_ids(store, "latecomer") == [late.id]


async def test_one_process_indexes_and_another_takes_over_when_it_is_gone(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await load(store, some_jobs(60, START, Random(11)))
    assert await make_indexer(store, clock, "one").run_once() == 60
    await load(store, some_jobs(60, START + timedelta(minutes=5), Random(12)))
    assert await make_indexer(store, clock, "two").run_once() == 0
    await clock.advance(timedelta(minutes=6))
    assert await make_indexer(store, clock, "two").run_once() == 60


async def test_parts_of_a_writer_that_died_are_removed(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(store, some_jobs(200, START, Random(13)))
    making = make_indexer(store, clock)

    async def die(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(indexer.TenantTurn, "_keep_existing", die)
        with pytest.raises(ZeroDivisionError):
            await making.run_once()
    await making.run_once()
    await making.run_once()
    state = (await read_state(store, "default")).state
    assert (state.reserved, state.retired) == ((), ())
    parts = 2 + sum(1 + mark.block_count for mark in state.segments) + len(state.pages)
    assert await count_documents(store) == parts
    await expect_same_answers(store)
    await forget_index(store)
    assert await count_documents(store) == 0
    await expect_same_answers(store)


async def test_a_search_goes_on_when_a_part_was_replaced_meanwhile(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await load(store, some_jobs(60, START, Random(14)))
    await make_indexer(store, clock).run_once()
    for collection in (BLOCKS, HEADS):
        store._collections[collection].clear()
    await expect_same_answers(store)


async def test_progress_says_how_far_a_search_has_looked(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(store, some_jobs(200, START, Random(15)))
    await make_indexer(store, clock).run_once()
    monkeypatch.setattr(lookup, "MOST_LOOKED_AT", 10)
    monkeypatch.setattr(index, "MOST_BLOCKS", 0)  # so that the index says nothing
    page = await search_jobs(store, "default", parse_query("payload.order=no"))
    assert page.items == ()
    assert page.has_more
    assert page.progress.searched_until is not None
    assert 0 < (page.progress.share or 0) < 0.5


async def test_an_old_match_is_on_the_first_page(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call reads far fewer jobs than there are newer ones, and finds it by the index."""
    oldest = a_job(name="Receipt 1234", created_at=START - timedelta(hours=1))
    await load(store, [oldest, *some_jobs(250, START, Random(19))])
    await make_indexer(store, clock).run_once()
    monkeypatch.setattr(lookup, "MOST_LOOKED_AT", 20)
    page = await search_jobs(store, "default", parse_query("receipt 1234"))
    assert [job.id for job in page.items] == [oldest.id]
    assert not page.has_more


async def test_small_tenants_have_no_index(store: MemoryStore, clock: VirtualClock) -> None:
    await load(store, some_jobs(5, START, Random(16)))
    assert await make_indexer(store, clock).run_once() == 0
    assert (await read_state(store, "default")).version is None


async def test_counts_and_sorts_use_the_index(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MOST_LOOKED_AT", 200)
    jobs = some_jobs(120, START, Random(17))
    await load(store, jobs)
    await make_indexer(store, clock).run_once()
    query = parse_query("kind:report state:failed")
    counted = await count_states(store, "default", query, clock.now())
    reports = [job for job in jobs if job.kind == "report"]
    assert counted.at_least == ()
    expected = Counter(find_state(job, clock.now()) for job in reports)
    assert counted.counts == {state: expected[state] for state in JobState}
    page = await search_jobs(store, "default", parse_query("kind:report sort:oldest"), limit=3)
    assert [job.id for job in page.items] == [job.id for job in reports[:3]]
    rest = await search_jobs(
        store, "default", parse_query("kind:report sort:oldest"), cursor=page.next_cursor, limit=3
    )
    assert [job.id for job in rest.items] == [job.id for job in reports[3:6]]


async def test_a_common_word_is_counted_from_the_index_alone(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_counts, "MOST_COUNTED", 20)
    monkeypatch.setattr(job_counts, "SURELY_MANY", 25)
    jobs = some_jobs(300, START, Random(21))
    await load(store, jobs)
    await make_indexer(store, clock).run_once()
    searched: list[frozenset[JobState]] = []
    find_in = lookup.find_in

    async def find(*given: Any) -> Any:
        searched.append(given[1].states)
        return await find_in(*given)

    monkeypatch.setattr(job_counts, "find_in", find)
    found = await count_states(store, "default", parse_query("mail"), clock.now())
    assert searched == [frozenset(JobState) - {JobState.COMPLETED}]
    assert found.counts[JobState.COMPLETED] == 20
    assert found.counts[JobState.DEAD] + found.counts[JobState.DUE] == 20
    assert set(found.at_least) == set(JobState)
    monkeypatch.setattr(job_counts, "MOST_COUNTED", 1_000)
    monkeypatch.setattr(lookup, "MOST_LOOKED_AT", 1_000)
    exact = await count_states(store, "default", parse_query("mail"), clock.now())
    expected = Counter(
        find_state(job, clock.now()) for job in jobs if "mail" in job.kind + job.name
    )
    assert exact.at_least == (JobState.COMPLETED,)
    assert exact.counts[JobState.DEAD] == expected[JobState.DEAD]
    assert exact.counts[JobState.DUE] == expected[JobState.DUE]
    mixed = parse_query("mail state:due,dead", clock.now())
    page = await search_jobs(store, "default", mixed, limit=100)
    assert len(page.items) == min(100, expected[JobState.DEAD] + expected[JobState.DUE])
    assert {find_state(job, clock.now()) for job in page.items} == {JobState.DEAD, JobState.DUE}


async def test_suggestions_come_from_the_index(store: MemoryStore, clock: VirtualClock) -> None:
    await load(store, some_jobs(120, START, Random(18)))
    await make_indexer(store, clock).run_once()

    async def texts(text: str) -> list[str]:
        return [each.text for each in await suggest(store, "default", text)]

    assert await texts("daily kind:re") == ["daily kind:report"]
    assert await texts("que") == ["queue:"]
    assert await texts("payload.cu") == ["payload.customer.city"]
    assert sorted(await texts("payload.customer.city=")) == [
        "payload.customer.city=oslo",
        "payload.customer.city=rome",
    ]
    assert sorted(await texts("error:")) == ["error:KeyError", "error:Timeout"]
    assert "welcome" in await texts("wel")
    assert await texts("") == [*(f"{name}:" for name in FIELDS), "payload."]
    assert await texts("mail created:1") == ["mail created:1h..", "mail created:1d.."]
    assert await texts("prio") == ["priority:"]


async def test_broad_ranges_of_terms_are_left_to_the_jobs_themselves(
    store: MemoryStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MOST_BLOCKS", 0)
    await load(store, some_jobs(90, START, Random(19)))
    await make_indexer(store, clock).run_once()
    await expect_same_answers(store, QUERIES[:4])
