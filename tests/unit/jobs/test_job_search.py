"""Lists of jobs: filters, order and pages."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.arbitrary import always

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs import Job, JobFilter, JobStatus, Page, Recurrence, check_limit, cut_page, list_jobs
from rota.testing import a_job

START = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def made(age: int, number: int, **fields: Any) -> Job:
    return a_job(
        created_at=START + age * TICK, id=f"00000000-0000-4000-8000-{number:012x}", **fields
    )


JOBS = st.lists(
    st.builds(made, st.integers(0, 4), st.integers(0, 10**6)),
    unique_by=lambda job: job.id,
    max_size=15,
)


@always
@given(JOBS)
def test_the_newest_come_first_then_the_smaller_id(jobs: list[Job]) -> None:
    listed = list_jobs(jobs, limit=100).items
    assert len(listed) == len(jobs)
    for before, after in pairwise(listed):
        assert before.created_at >= after.created_at
        assert before.created_at > after.created_at or before.id < after.id


@always
@given(JOBS, st.integers(1, 6))
def test_pages_put_together_are_the_list(jobs: list[Job], limit: int) -> None:
    pages: list[Page] = [list_jobs(jobs, limit=limit)]
    while pages[-1].next_cursor is not None:
        pages.append(list_jobs(jobs, cursor=pages[-1].next_cursor, limit=limit))
    assert [job for page in pages for job in page.items] == list_jobs(jobs, limit=100).items
    assert all(len(page.items) == limit for page in pages[:-1])
    assert [page.has_more for page in pages] == [True] * (len(pages) - 1) + [False]


def test_a_job_that_arrives_between_pages_shifts_nothing() -> None:
    jobs = [made(age, age) for age in range(4)]
    first = list_jobs(jobs, limit=2)
    second = list_jobs([*jobs, made(9, 9)], cursor=first.next_cursor, limit=2)
    assert [job.created_at - START for job in second.items] == [TICK, 0 * TICK]


@pytest.mark.parametrize(
    ("wanted", "ages"),
    [
        (JobFilter(), [0, 1, 2, 3]),
        (JobFilter(tenant="guild-7"), [3]),
        (JobFilter(queue="mail"), [1, 2]),
        (JobFilter(queue="mai"), []),
        (JobFilter(status=JobStatus.FAILED), [2]),
        (JobFilter(is_recurring=True), [3]),
        (JobFilter(is_recurring=False), [0, 1, 2]),
        (JobFilter(priority_min=5), [1, 2, 3]),
        (JobFilter(priority_max=5), [0, 1]),
        (JobFilter(priority_min=5, priority_max=5), [1]),
        (JobFilter(created_after=START + TICK), [1, 2, 3]),
        (JobFilter(created_before=START + TICK), [0]),
        (JobFilter(queue="mail", status=JobStatus.READY, priority_max=9), [1]),
    ],
)
def test_a_list_holds_what_fits_every_filter(wanted: JobFilter, ages: list[int]) -> None:
    jobs = [
        made(0, 0, priority=1),
        made(1, 1, priority=5, queue="mail"),
        made(2, 2, priority=9, queue="mail", status=JobStatus.FAILED),
        made(
            3, 3, priority=10, tenant="guild-7", recurrence=Recurrence(interval="1h", start=START)
        ),
    ]
    listed = list_jobs(jobs, wanted).items
    assert sorted((job.created_at - START) // TICK for job in listed) == ages


def test_twenty_to_a_page_unless_asked() -> None:
    assert len(list_jobs([made(0, number) for number in range(30)]).items) == 20


@pytest.mark.parametrize("limit", [0, -1, 101, True, 2.0, "5", None])
def test_a_limit_outside_is_refused_not_cut(limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="limit must be an integer from 1 to 100"):
        list_jobs([], limit=limit)
    assert check_limit(1) == 1
    assert check_limit(100) == 100


def test_a_broken_cursor_is_refused() -> None:
    with pytest.raises(InvalidCursorError):
        list_jobs([], cursor="x")


@pytest.mark.parametrize("count", range(5))
def test_one_job_more_than_the_limit_shows_that_there_is_more(count: int) -> None:
    jobs = [made(0, number) for number in range(count)]
    page = cut_page(jobs, 3)
    assert page.items == jobs[:3]
    assert page.has_more is (count > 3)


def test_a_list_of_series_in_one_status_is_one_that_stores_find_quickly() -> None:
    assert JobFilter(is_recurring=True, status=JobStatus.READY).is_of_series
    assert not JobFilter(is_recurring=True).is_of_series
    assert not JobFilter(is_recurring=False, status=JobStatus.READY).is_of_series
    assert not JobFilter(status=JobStatus.READY).is_of_series
