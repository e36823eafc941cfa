"""Looking for jobs by text and kind."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import InvalidInputError
from rota.jobs import JobFilter
from rota.ops.job_counts import count_states
from rota.ops.search import search_jobs
from rota.search import lookup
from rota.search.query import JobQuery, parse_query
from rota.stores.memory import MemoryStore
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def test_names_and_kinds_are_searched_case_insensitively(store: MemoryStore) -> None:
    mail = a_job(name="Send MAIL", kind="send")
    other = a_job(name="other", kind="mail.digest")
    await store.insert([mail, other, a_job(name="clean up")], NOW)
    page = await search_jobs(store, "default", JobQuery(text="Mail"))
    assert {job.id for job in page.items} == {mail.id, other.id}
    assert not page.has_more
    page = await search_jobs(store, "default", JobQuery(kind="send"))
    assert [job.id for job in page.items] == [mail.id]


async def test_an_id_finds_its_job_at_once_and_only_the_tenants(store: MemoryStore) -> None:
    job, foreign = a_job(queue="a"), a_job(tenant="other")
    await store.insert([job, foreign], NOW)
    page = await search_jobs(store, "default", JobQuery(text=job.id.upper()))
    assert [each.id for each in page.items] == [job.id]
    wanted = JobFilter(queue="b")
    assert not (await search_jobs(store, "default", JobQuery(text=job.id, wanted=wanted))).items
    assert not (await search_jobs(store, "default", JobQuery(text=foreign.id))).items


async def test_pages_follow_each_other_without_gap_or_repetition(store: MemoryStore) -> None:
    jobs = [
        a_job(name=f"{'even' if number % 2 == 0 else 'odd'} {number}", created_at=NOW + _s(number))
        for number in range(25)
    ]
    await store.insert(jobs, NOW)
    found: list[str] = []
    cursor: str | None = None
    for _ in range(10):
        page = await search_jobs(store, "default", JobQuery(text="even"), cursor=cursor, limit=3)
        assert len(page.items) <= 3
        found += [job.name for job in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [f"even {number}" for number in range(24, -1, -2)]


async def test_a_walk_goes_only_so_far_and_can_be_gone_on_with(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MOST_LOOKED_AT", 100)
    jobs = [a_job(name="x", created_at=NOW + _s(number)) for number in range(150)]
    oldest = a_job(name="needle", created_at=NOW - _s(1))
    await store.insert([*jobs, oldest], NOW)
    page = await search_jobs(store, "default", JobQuery(text="needle"))
    assert (page.items, page.has_more) == ((), True)
    page = await search_jobs(store, "default", JobQuery(text="needle"), cursor=page.next_cursor)
    assert [job.id for job in page.items] == [oldest.id]
    assert not page.has_more


async def test_bad_questions_are_refused_by_their_field(store: MemoryStore) -> None:
    with pytest.raises(InvalidInputError, match="text"):
        JobQuery(text="")
    with pytest.raises(InvalidInputError, match="kind"):
        JobQuery(kind="x" * 256)
    with pytest.raises(InvalidInputError, match="limit"):
        await search_jobs(store, "default", JobQuery(text="x"), limit=0)


async def test_jobs_are_found_and_counted_by_priority_and_time(store: MemoryStore) -> None:
    jobs = [
        a_job(
            name="mail" if number % 2 else "other",
            priority=number % 10 + 1,
            created_at=NOW - number * HOUR,
            due_at=NOW + (15 - number) * HOUR,
        )
        for number in range(30)
    ]
    await store.insert(jobs, NOW)

    async def find(text: str) -> list[int]:
        page = await search_jobs(store, "default", parse_query(text, NOW), limit=100)
        assert not page.has_more
        counts = await count_states(store, "default", parse_query(text, NOW), NOW)
        assert sum(counts.counts.values()) == len(page.items)
        places = {job.id: number for number, job in enumerate(jobs)}
        return [places[job.id] for job in page.items]

    assert await find("priority:9..") == [8, 9, 18, 19, 28, 29]
    assert await find("created:2h..") == [0, 1, 2]
    assert await find("created:..1d priority:..6") == [25]
    assert await find("due:now..+2h") == [14, 15]
    assert await find("mail due:..10h") == [27, 29]
    assert await find("mail created:5h.. due:+11h..") == [1, 3]
    assert await find(f"id:{jobs[4].id[:8]} {jobs[4].id} due:..now") == []


def _s(number: int) -> timedelta:
    return timedelta(seconds=number)
