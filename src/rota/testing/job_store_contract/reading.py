"""``get``, ``find``, ``count`` and ``attempts``, each for one tenant; ``survey``, for all."""

import pytest

from rota.errors import InvalidCursorError, InvalidInputError
from rota.jobs import (
    Cancelled,
    Discarded,
    Failed,
    Job,
    JobFilter,
    JobStatus,
    Recurrence,
    RetryPolicy,
    Succeeded,
    decide_lost,
    list_jobs,
)
from rota.stores.protocol import JobStore, QueueDepth
from rota.stores.survey import survey_jobs
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    everything,
    expect,
    take,
)

_DAILY = Recurrence(cron="0 9 * * *", start=NOW)


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
            JobFilter(is_recurring=True),
            JobFilter(is_recurring=False),
            JobFilter(is_recurring=True, status=JobStatus.READY, queue="b"),
            JobFilter(is_recurring=True, status=JobStatus.PENDING, priority_max=9),
            JobFilter(is_recurring=False, status=JobStatus.PENDING),
        ],
    )
    async def test_filters_mean_what_the_rules_say(self, jobs: JobStore, wanted: JobFilter) -> None:
        kept = _various()
        await jobs.insert(kept, NOW)
        expected = list_jobs(kept, wanted, limit=100)
        expect(await jobs.find("default", wanted, limit=100), expected)
        expect(await jobs.count("default", wanted), len(expected.items))
        expect(expected.items != [], expected=True)

    async def test_what_recurs_is_found_in_pages_in_whichever_state(self, jobs: JobStore) -> None:
        series = [
            a_job(created_at=NOW + number * SECOND, due_at=NOW, recurrence=_DAILY)
            for number in range(5)
        ]
        await jobs.insert([*series, *(a_job(due_at=NOW + DAY) for _ in range(5))], NOW)
        running, failed = await take(jobs, limit=2)
        await end(jobs, failed, Discarded("no such user"))
        kept = await everything(jobs)
        for status in (JobStatus.READY, JobStatus.RUNNING, JobStatus.FAILED):
            wanted = JobFilter(is_recurring=True, status=status)
            cursor, met = None, []
            while True:
                page = await jobs.find("default", wanted, cursor=cursor, limit=2)
                expect(page, list_jobs(kept, wanted, cursor=cursor, limit=2))
                met += page.items
                cursor = page.next_cursor
                if cursor is None:
                    break
            expect(await jobs.count("default", wanted), len(met))
            expect(met != [], expected=True)
            expect((await jobs.find("other", wanted)).items, [])
        expect(running.recurrence, _DAILY)

    async def test_a_bad_limit_or_cursor_is_refused(self, jobs: JobStore) -> None:
        for limit in (0, 101):
            with pytest.raises(InvalidInputError, match="limit"):
                await jobs.find("default", limit=limit)
        with pytest.raises(InvalidCursorError):
            await jobs.find("default", cursor="nonsense")


class FindDependentsContract(JobStoreFixture):
    """Who depends on a job is found without looking at all the others."""

    async def test_only_those_are_found_that_name_one_of_the_jobs(self, jobs: JobStore) -> None:
        one, other = a_job(), a_job()
        child = a_job(dependencies=[one.id])
        both = a_job(dependencies=[one.id, other.id])
        grandchild = a_job(dependencies=[child.id])
        await jobs.insert([one, other, child, both, grandchild], NOW)
        for asked, expected in (([one], [child, both]), ([one, child], [child, both, grandchild])):
            found = await jobs.find_dependents("default", [job.id for job in asked], 10)
            expect([job.id for job in found], sorted(job.id for job in expected))
        expect(found[0].status, JobStatus.PENDING)
        expect(await jobs.find_dependents("default", [grandchild.id, a_job().id], 10), [])

    async def test_whatever_has_become_of_them(self, jobs: JobStore) -> None:
        parent = a_job(retry_policy=RetryPolicy(max_attempts=1))
        child = a_job(dependencies=[parent.id])
        await jobs.insert([parent, child], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased, Failed("no"))
        (found,) = await jobs.find_dependents("default", [parent.id], 10)
        expect((found.id, found.status), (child.id, JobStatus.BLOCKED))
        await jobs.delete("default", child.id)
        expect(await jobs.find_dependents("default", [parent.id], 10), [])

    async def test_no_more_than_were_asked_for_and_none_of_others(self, jobs: JobStore) -> None:
        parent = a_job()
        children = [a_job(dependencies=[parent.id]) for _ in range(5)]
        await jobs.insert([parent, *children], NOW)
        found = await jobs.find_dependents("default", [parent.id], 3)
        expect([job.id for job in found], sorted(job.id for job in children)[:3])
        expect(await jobs.find_dependents("other", [parent.id], 3), [])
        with pytest.raises(InvalidInputError, match="limit"):
            await jobs.find_dependents("default", [parent.id], 0)


class SurveyContract(JobStoreFixture):
    """An operator sees how full each queue is, whoever its jobs belong to."""

    async def test_where_there_are_no_jobs_there_are_no_queues(self, jobs: JobStore) -> None:
        expect(await jobs.survey(NOW), [])

    async def test_all_tenants_are_counted_together_and_queues_apart(self, jobs: JobStore) -> None:
        await jobs.insert(
            [
                a_job(tenant="one", queue="b", due_at=NOW - SECOND),
                a_job(tenant="two", queue="b", due_at=NOW - MINUTE, priority=1),
                a_job(tenant="two", queue="b", due_at=NOW),
                a_job(tenant="two", queue="b", due_at=NOW + SECOND),
                a_job(tenant="one", queue="a", due_at=NOW + MINUTE),
            ],
            NOW,
        )
        b = QueueDepth(queue="b", due_count=3, later_count=1, oldest_due_at=NOW - MINUTE)
        expect(await jobs.survey(NOW), [QueueDepth(queue="a", later_count=1), b])

    async def test_one_tenant_is_surveyed_as_if_there_were_no_other(self, jobs: JobStore) -> None:
        once = RetryPolicy(max_attempts=1)
        for tenant, queue in (("one", "a"), ("one", "b"), ("two", "a"), ("two", "b")):
            for shift in (-3 * MINUTE, -2 * MINUTE, -MINUTE, MINUTE):
                job = a_job(tenant=tenant, queue=queue, due_at=NOW + shift, retry_policy=once)
                await jobs.insert([job], NOW)
        for leased in await take(jobs, NOW - 2 * MINUTE, tenants=["two"], queues=["a"], limit=2):
            await end(jobs, leased, Failed("no"))
        await take(jobs, NOW - MINUTE, tenants=["one"], limit=1)
        for tenant in ("one", "two"):
            kept = await everything(jobs, tenant)
            expect(len(kept), 8)
            expect(await jobs.survey(NOW + SECOND, tenant), survey_jobs(kept, NOW + SECOND))
        expect(await jobs.survey(NOW, "nobody"), [])

    async def test_what_has_come_due_is_due_before_anybody_leases(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(due_at=NOW + MINUTE), a_job(due_at=NOW + 2 * MINUTE)], NOW)
        due = NOW + MINUTE
        (depth,) = await jobs.survey(due)
        expect((depth.due_count, depth.later_count, depth.oldest_due_at), (1, 1, due))
        (depth,) = await jobs.survey(NOW + 3 * MINUTE)
        expect((depth.due_count, depth.later_count, depth.oldest_due_at), (2, 0, due))
        (depth,) = await jobs.survey(NOW)
        expect((depth.due_count, depth.later_count, depth.oldest_due_at), (0, 2, None))

    async def test_a_clock_that_goes_back_makes_due_jobs_later_ones(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(due_at=NOW), a_job(due_at=NOW + MINUTE)], NOW)
        await take(jobs, NOW + MINUTE, limit=1)
        (depth,) = await jobs.survey(NOW)
        expect((depth.due_count, depth.later_count, depth.running_count), (0, 1, 1))

    async def test_who_runs_is_counted_and_who_has_stalled_once_more(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(tenant=tenant, due_at=NOW) for tenant in "ab"], NOW)
        await take(jobs, limit=1)
        await take(jobs, NOW + SECOND, limit=1)
        running = QueueDepth(queue="default", running_count=2)
        expect(await jobs.survey(NOW + MINUTE), [running])
        (depth,) = await jobs.survey(NOW + MINUTE + SECOND)
        expect((depth.running_count, depth.stalled_count), (2, 1))
        (depth,) = await jobs.survey(NOW + 2 * MINUTE)
        expect((depth.running_count, depth.stalled_count), (2, 2))

    async def test_dead_letters_are_told_from_what_was_given_up(self, jobs: JobStore) -> None:
        once = RetryPolicy(max_attempts=1)
        for outcome in (Failed("no"), Discarded("no"), Cancelled("no"), Succeeded()):
            await jobs.insert([a_job(retry_policy=once, due_at=NOW)], NOW)
            (leased,) = await take(jobs)
            await end(jobs, leased, outcome)
        expect(await jobs.survey(NOW), [QueueDepth(queue="default", dead_count=1)])

    async def test_who_takes_its_workers_down_is_a_dead_letter(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(queue="heavy", due_at=NOW)], NOW)
        now, status = NOW, JobStatus.READY
        while not status.is_terminal:
            (leased,) = await take(jobs, now)
            now += 2 * MINUTE
            (applied,) = await jobs.apply([decide_lost(leased, now)], now)
            status = JobStatus.READY if applied.job is None else applied.job.status
            now += DAY
        expect(await jobs.survey(now), [QueueDepth(queue="heavy", dead_count=1)])

    async def test_who_waits_for_others_or_is_gone_is_not_counted(self, jobs: JobStore) -> None:
        parent = a_job(due_at=NOW, retry_policy=RetryPolicy(max_attempts=1))
        await jobs.insert([parent, a_job(dependencies=[parent.id], queue="next")], NOW)
        expect([depth.queue for depth in await jobs.survey(NOW)], ["default"])
        (leased,) = await take(jobs)
        await end(jobs, leased, Failed("no"))
        expect(await jobs.survey(NOW), [QueueDepth(queue="default", dead_count=1)])
        (blocked,) = (await jobs.find("default", JobFilter(queue="next"))).items
        await jobs.delete("default", blocked.id)
        await jobs.delete("default", parent.id)
        expect(await jobs.survey(NOW), [])

    async def test_without_a_zone_now_is_refused(self, jobs: JobStore) -> None:
        with pytest.raises(InvalidInputError, match="now"):
            await jobs.survey(NOW.replace(tzinfo=None))


def _various() -> list[Job]:
    parent = a_job(queue="a", created_at=NOW)
    return [parent] + [
        a_job(
            queue="ab"[number % 2],
            priority=number % 10 + 1,
            created_at=NOW + number % 5 * SECOND,
            dependencies=[parent.id] * (number % 3 == 0),
            recurrence=_DAILY if number % 5 == 0 else None,
        )
        for number in range(30)
    ]
