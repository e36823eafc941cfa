"""``get``, ``find``, ``count`` and ``attempts``: each for one tenant only."""

import pytest

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs import Failed, Job, JobFilter, JobStatus, list_jobs
from rota.stores.jobs import JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    expect,
    take,
)


class ReadingContract(JobStoreFixture):
    """A tenant sees its own jobs and no others."""

    async def test_those_that_exist_are_found(self, jobs: JobStore) -> None:
        one, two, missing = a_job(), a_job(), a_job()
        await jobs.insert([one, two], NOW)
        found = await jobs.get("default", [two.id, missing.id, one.id, one.id])
        expect(found, {one.id: one, two.id: two})
        expect(await jobs.get("default", []), {})

    async def test_other_tenants_jobs_do_not_exist(self, jobs: JobStore) -> None:
        job = a_job(tenant="owner")
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased, Failed("secret"))
        expect(await jobs.get("other", [job.id]), {})
        expect((await jobs.find("other")).items, [])
        expect((await jobs.find("other", JobFilter(tenant="owner"))).items, [])
        expect(await jobs.count("other"), 0)
        expect(await jobs.count("other", JobFilter(tenant="owner")), 0)
        expect(await jobs.attempts("other", job.id), [])
        expect([one.error for one in await jobs.attempts("owner", job.id)], ["secret"])

    async def test_the_attempts_of_no_job_are_none(self, jobs: JobStore) -> None:
        expect(await jobs.attempts("default", a_job().id), [])

    async def test_pages_come_as_the_rules_say(self, jobs: JobStore) -> None:
        kept = _various()
        await jobs.insert([*kept, a_job(tenant="other")], NOW)
        cursor, met = None, []
        while True:
            page = await jobs.find("default", cursor=cursor, limit=7)
            expect(page, list_jobs(kept, cursor=cursor, limit=7))
            met += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        expect((len(met), len({job.id for job in met})), (len(kept), len(kept)))

    @pytest.mark.parametrize(
        "wanted",
        [
            JobFilter(queue="a"),
            JobFilter(status=JobStatus.READY),
            JobFilter(status=JobStatus.PENDING),
            JobFilter(priority_min=4, priority_max=6),
            JobFilter(created_after=NOW + SECOND, created_before=NOW + 3 * SECOND),
            JobFilter(queue="b", priority_min=3, created_after=NOW + SECOND),
        ],
    )
    async def test_filters_mean_what_the_rules_say(self, jobs: JobStore, wanted: JobFilter) -> None:
        kept = _various()
        await jobs.insert(kept, NOW)
        expected = list_jobs(kept, wanted, limit=100)
        expect(await jobs.find("default", wanted, limit=100), expected)
        expect(await jobs.count("default", wanted), len(expected.items))
        expect(expected.items != [], expected=True)

    async def test_a_bad_limit_or_cursor_is_refused(self, jobs: JobStore) -> None:
        for limit in (0, 101):
            with pytest.raises(InvalidInputError, match="limit"):
                await jobs.find("default", limit=limit)
        with pytest.raises(InvalidCursorError):
            await jobs.find("default", cursor="nonsense")


def _various() -> list[Job]:
    parent = a_job(queue="a", created_at=NOW)
    return [parent] + [
        a_job(
            queue="ab"[number % 2],
            priority=number % 10 + 1,
            created_at=NOW + number % 5 * SECOND,
            dependencies=[parent.id] * (number % 3 == 0),
        )
        for number in range(30)
    ]
