"""Section 4: filters, cursors, and the order of a list."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import InvalidInputError
from rota.jobs import Job, JobFilter, JobStatus, decode_cursor, encode_cursor, list_jobs
from rota.testing import a_job

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def jobs(count: int) -> list[Job]:
    """Two of each age, so that the id has to decide."""
    return [a_job(created_at=START + number // 2 * MINUTE) for number in range(count)]


def test_filters_are_all_optional_and_all_hold() -> None:
    wanted = a_job(queue="mail", priority=7, created_at=START)
    others = [
        a_job(queue="Mail", priority=7, created_at=START),
        a_job(queue="mail", priority=4, created_at=START),
        a_job(queue="mail", priority=9, created_at=START),
        a_job(queue="mail", priority=7, created_at=START - MINUTE),
        a_job(queue="mail", priority=7, created_at=START + MINUTE),
        a_job(queue="mail", priority=7, created_at=START, status=JobStatus.BLOCKED),
    ]
    found = list_jobs(
        [*others, wanted],
        JobFilter(
            queue="mail",
            status=JobStatus.READY,
            priority_min=5,
            priority_max=8,
            created_after=START,
            created_before=START + MINUTE,
        ),
    )
    assert found.items == [wanted]
    assert len(list_jobs([*others, wanted]).items) == 7


def test_a_cursor_is_the_base64_of_creation_and_id() -> None:
    job = a_job(created_at=START)
    cursor = encode_cursor(job.created_at, job.id)
    created_at, separator, job_id = base64.b64decode(cursor).decode().partition("|")
    assert (datetime.fromisoformat(created_at), separator, job_id) == (START, "|", job.id)
    assert decode_cursor(cursor) == (START, job.id)


def test_pages_follow_one_another_without_gaps_or_repeats() -> None:
    listed = sorted(jobs(7), key=lambda job: (START - job.created_at, job.id))
    first = list_jobs(listed[::-1], limit=3)
    second = list_jobs(listed[::-1], cursor=first.next_cursor, limit=3)
    third = list_jobs(listed[::-1], cursor=second.next_cursor, limit=3)
    assert first.items + second.items + third.items == listed
    assert [page.has_more for page in (first, second, third)] == [True, True, False]
    assert third.next_cursor is None


def test_a_page_that_is_just_full_may_be_the_last() -> None:
    page = list_jobs(jobs(3), limit=3)
    assert (page.has_more, page.next_cursor) == (False, None)


def test_a_page_has_twenty_jobs_and_at_most_a_hundred() -> None:
    assert len(list_jobs(jobs(150)).items) == 20
    assert len(list_jobs(jobs(150), limit=100).items) == 100
    for limit in (0, 101, -5):
        with pytest.raises(InvalidInputError, match="limit"):
            list_jobs(jobs(1), limit=limit)


def test_the_newest_are_listed_first_and_equals_by_id() -> None:
    old, twin, young = (
        a_job(created_at=START, id="0" * 8 + "-0000-4000-8000-000000000002"),
        a_job(created_at=START, id="0" * 8 + "-0000-4000-8000-000000000001"),
        a_job(created_at=START + MINUTE),
    )
    assert list_jobs([old, twin, young]).items == [young, twin, old]
