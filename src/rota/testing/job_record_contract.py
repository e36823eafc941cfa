"""Reading, changing and deleting jobs, and closing the store."""

from collections.abc import Awaitable
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from rota.errors import (
    DependenciesFixedError,
    DependencyCycleError,
    DuplicateJobError,
    HasDependentsError,
    InvalidCursorError,
    InvalidInputError,
    InvalidJobError,
    JobEndedError,
    JobNotFoundError,
    StoreClosedError,
    UnknownDependencyError,
)
from rota.jobs import (
    Cancelled,
    Discarded,
    Ending,
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
from rota.jobs.retention import FOREVER, Expiry, Keep, Retention, RetentionRule
from rota.stores.protocol import HeldLease, JobStore, QueueDepth
from rota.stores.survey import survey_jobs
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import (
    DAY,
    MINUTE,
    NOW,
    SECOND,
    JobStoreFixture,
    end,
    everything,
    find,
    names,
    start,
    statuses,
    take,
)
from rota.testing.store_contract import expect

FAILED, READY = JobStatus.FAILED, JobStatus.READY
_EXHAUSTED = (FAILED, Ending.EXHAUSTED)
_DAILY = Recurrence(cron="0 9 * * *", start=NOW)


class ReadingContract(JobStoreFixture):
    """A tenant sees its own jobs and no others."""

    async def test_existing_jobs_are_found(self, jobs: JobStore) -> None:
        one, two, missing = a_job(), a_job(), a_job()
        await jobs.insert([one, two], NOW)
        found = await jobs.get("default", [two.id, missing.id, one.id, one.id])
        expect(found, {one.id: one, two.id: two})
        expect(await jobs.get("default", []), {})

    async def test_other_tenants_jobs_do_not_exist(self, jobs: JobStore) -> None:
        job = a_job(tenant="owner")
        (leased,) = await start(jobs, [job])
        await end(jobs, leased, Failed("secret"))
        expect(await jobs.get("other", [job.id]), {})
        expect((await jobs.find("other")).items, [])
        expect((await jobs.find("other", JobFilter(tenant="owner"))).items, [])
        expect(await jobs.count("other"), 0)
        expect(await jobs.count("other", JobFilter(tenant="owner")), 0)
        expect(await jobs.attempts("other", job.id), [])
        expect([one.error for one in await jobs.attempts("owner", job.id)], ["secret"])

    async def test_an_unknown_job_has_no_attempts(self, jobs: JobStore) -> None:
        expect(await jobs.attempts("default", a_job().id), [])

    async def test_pages_follow_the_order_of_the_reference(self, jobs: JobStore) -> None:
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
    async def test_filters_match_what_the_reference_matches(
        self, jobs: JobStore, wanted: JobFilter
    ) -> None:
        kept = _various()
        await jobs.insert(kept, NOW)
        expected = list_jobs(kept, wanted, limit=100)
        expect(await jobs.find("default", wanted, limit=100), expected)
        expect(await jobs.count("default", wanted), len(expected.items))
        expect(expected.items != [], expected=True)

    async def test_dead_letters_are_listed_in_pages_without_other_failed_jobs(
        self, jobs: JobStore
    ) -> None:
        outcomes = (Failed("no"), Discarded("no"), Cancelled("no"), Succeeded())
        once = RetryPolicy(max_attempts=1)
        made = [
            a_job(queue=queue, retry_policy=once, created_at=NOW - at * SECOND, due_at=NOW)
            for at, queue in enumerate("abcabcabc" * 4)
        ]
        await jobs.insert([*made, a_job(due_at=NOW + DAY)], NOW)
        for at, leased in enumerate(await take(jobs, limit=len(made))):
            await end(jobs, leased, outcomes[at % len(outcomes)])
        kept = await everything(jobs)
        for more in ({}, {"queue": "b"}, {"status": FAILED}, {"priority_max": 9}):
            wanted = JobFilter(only_dead=True, **more)
            met = await _read_pages(jobs, kept, wanted)
            expect({job.last_error for job in met}, {"no"})
            expect({job.ending for job in met}, {Ending.EXHAUSTED})
            expect(await jobs.count("default", wanted), len(met))
            expect(await jobs.count("default", wanted, 2), 2)
        expect(await jobs.count("default", JobFilter(only_dead=True, status=READY)), 0)
        expect(await jobs.count("other", JobFilter(only_dead=True)), 0)

    async def test_jobs_of_series_are_listed_in_pages_in_any_state(self, jobs: JobStore) -> None:
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
            met = await _read_pages(jobs, kept, wanted)
            expect(await jobs.count("default", wanted), len(met))
            expect(await jobs.count("default", wanted, 2), min(len(met), 2))
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

    async def test_only_dependents_of_the_given_jobs_are_found(self, jobs: JobStore) -> None:
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

    async def test_dependents_are_found_in_every_status(self, jobs: JobStore) -> None:
        parent = a_job(retry_policy=RetryPolicy(max_attempts=1))
        child = a_job(dependencies=[parent.id])
        (leased,) = await start(jobs, [parent, child])
        await end(jobs, leased, Failed("no"))
        (found,) = await jobs.find_dependents("default", [parent.id], 10)
        expect((found.id, found.status), (child.id, JobStatus.BLOCKED))
        await jobs.delete("default", child.id)
        expect(await jobs.find_dependents("default", [parent.id], 10), [])

    async def test_a_limit_applies_and_other_tenants_are_left_out(self, jobs: JobStore) -> None:
        parent = a_job()
        children = [a_job(dependencies=[parent.id]) for _ in range(5)]
        await jobs.insert([parent, *children], NOW)
        found = await jobs.find_dependents("default", [parent.id], 3)
        expect([job.id for job in found], sorted(job.id for job in children)[:3])
        expect(await jobs.find_dependents("other", [parent.id], 3), [])
        with pytest.raises(InvalidInputError, match="limit"):
            await jobs.find_dependents("default", [parent.id], 0)


class SurveyContract(JobStoreFixture):
    """Counts the jobs of each queue, over all tenants."""

    async def test_without_jobs_there_are_no_queues(self, jobs: JobStore) -> None:
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
        expect(await jobs.survey(NOW, "absent"), [])

    async def test_jobs_that_came_due_are_marked_before_a_lease(self, jobs: JobStore) -> None:
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

    async def test_running_jobs_are_counted_and_stalled_ones_again(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(tenant=tenant, due_at=NOW) for tenant in "ab"], NOW)
        await take(jobs, limit=1)
        await take(jobs, NOW + SECOND, limit=1)
        running = QueueDepth(queue="default", running_count=2)
        expect(await jobs.survey(NOW + MINUTE), [running])
        (depth,) = await jobs.survey(NOW + MINUTE + SECOND)
        expect((depth.running_count, depth.stalled_count), (2, 1))
        (depth,) = await jobs.survey(NOW + 2 * MINUTE)
        expect((depth.running_count, depth.stalled_count), (2, 2))

    async def test_dead_letters_are_counted_apart_from_discarded_jobs(self, jobs: JobStore) -> None:
        once = RetryPolicy(max_attempts=1)
        for outcome in (Failed("no"), Discarded("no"), Cancelled("no"), Succeeded()):
            (leased,) = await start(jobs, [a_job(retry_policy=once, due_at=NOW)])
            await end(jobs, leased, outcome)
        expect(await jobs.survey(NOW), [QueueDepth(queue="default", dead_count=1)])

    async def test_a_job_that_kills_its_workers_is_a_dead_letter(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(queue="heavy", due_at=NOW)], NOW)
        now, status = NOW, JobStatus.READY
        while not status.is_terminal:
            (leased,) = await take(jobs, now)
            now += 2 * MINUTE
            (applied,) = await jobs.apply([decide_lost(leased, now)], now)
            status = JobStatus.READY if applied.job is None else applied.job.status
            now += DAY
        expect(await jobs.survey(now), [QueueDepth(queue="heavy", dead_count=1)])

    async def test_pending_and_removed_jobs_are_not_counted(self, jobs: JobStore) -> None:
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


class AmendingContract(JobStoreFixture):
    """An operator changes a job through the same verb."""

    async def test_an_amended_job_comes_in_its_new_place(self, jobs: JobStore) -> None:
        waiting = [a_job(name=name, queue="a") for name in ("one", "two", "three", "four")]
        one, two, three, four = waiting
        await jobs.insert(waiting, NOW)
        await jobs.amend("default", three.id, {"priority": 10}, NOW)
        await jobs.amend("default", two.id, {"due_at": NOW + DAY}, NOW)
        amended = await jobs.amend("default", four.id, {"queue": "b"}, NOW + SECOND)
        expect(amended, replace(four, queue="b", updated_at=NOW + SECOND))
        expect(await find(jobs, four.id), amended)
        expect(names(await take(jobs, queues=["a"])), ["three", "one"])
        expect(names(await take(jobs, queues=["b"])), ["four"])
        expect(await jobs.next_due_at(NOW), NOW + DAY)
        expect(names(await take(jobs, NOW + DAY)), ["two"])
        expect(one.status, JobStatus.READY)

    async def test_a_job_made_due_earlier_is_leased_earlier(self, jobs: JobStore) -> None:
        job = a_job(due_at=NOW + DAY)
        await jobs.insert([job], NOW)
        await jobs.amend("default", job.id, {"due_at": NOW}, NOW)
        expect(await jobs.next_due_at(NOW), NOW)
        expect(len(await take(jobs)), 1)
        expect(await take(jobs, NOW + 2 * DAY), [])

    async def test_a_postponed_job_is_due_at_its_new_time(self, jobs: JobStore) -> None:
        job = a_job(due_at=NOW + DAY)
        await jobs.insert([job], NOW)
        await jobs.amend("default", job.id, {"due_at": NOW + 2 * DAY}, NOW)
        expect(await jobs.next_due_at(NOW), NOW + 2 * DAY)
        expect(await take(jobs, NOW + DAY), [])
        expect(len(await take(jobs, NOW + 2 * DAY)), 1)

    async def test_an_amendment_outlives_the_running_attempt(self, jobs: JobStore) -> None:
        job = a_job()
        (leased,) = await start(jobs, [job])
        await jobs.amend("default", job.id, {"payload": {"new": 1}}, NOW)
        await end(jobs, leased, Failed("no"))
        kept = await find(jobs, job.id)
        expect(kept and (kept.payload, kept.attempt_count), ({"new": 1}, 1))

    async def test_a_failure_is_judged_by_the_amended_retry_policy(self, jobs: JobStore) -> None:
        few, many = RetryPolicy(max_attempts=1), RetryPolicy(max_attempts=5)
        lowered, raised = a_job(retry_policy=many), a_job(retry_policy=few)
        child = a_job(dependencies=(lowered.id,), status=JobStatus.PENDING)
        await jobs.insert([lowered, raised, child], NOW)
        leased = {job.id: job for job in await take(jobs)}
        await jobs.amend("default", lowered.id, {"retry_policy": few}, NOW)
        await jobs.amend("default", raised.id, {"retry_policy": many}, NOW)
        ended = await end(jobs, leased[lowered.id], Failed("no", traceback="here"))
        expect(ended.job and (ended.job.status, ended.job.ending), (FAILED, Ending.EXHAUSTED))
        expect(ended.blocked, (child.id,))
        await end(jobs, leased[raised.id], Failed("no"))
        kept, again = await find(jobs, lowered.id), await find(jobs, raised.id)
        expect(kept and (kept.status, kept.ending, kept.attempt_count), (*_EXHAUSTED, 1))
        expect(again and (again.status, again.ending, again.attempt_count), (READY, None, 1))
        (attempt,) = await jobs.attempts("default", lowered.id)
        expect((attempt.outcome, attempt.traceback), ("failed", "here"))

    async def test_a_series_goes_on_when_the_amended_policy_ends_its_job(
        self, jobs: JobStore
    ) -> None:
        job = a_job(recurrence=_DAILY, occurrence_at=NOW, retry_policy=RetryPolicy(max_attempts=5))
        (leased,) = await start(jobs, [job])
        await jobs.amend("default", job.id, {"retry_policy": RetryPolicy(max_attempts=1)}, NOW)
        ended = await end(jobs, leased, Failed("no"))
        expect(ended.successor and ended.successor.origin, job.id)
        expect(await statuses(jobs, job), [FAILED])

    async def test_new_dependencies_decide_the_status(self, jobs: JobStore) -> None:
        done, failed, waits = a_job(name="done"), a_job(name="failed"), a_job(name="waits")
        await jobs.insert([done, failed], NOW)
        for leased in await take(jobs):
            await end(jobs, leased, Discarded("no") if leased.name == "failed" else None)
        await jobs.insert([waits], NOW)
        one, two = a_job(dependencies=[waits.id]), a_job(dependencies=[waits.id])
        below = a_job(dependencies=[two.id])
        await jobs.insert([one, two, below], NOW)
        await jobs.amend("default", one.id, {"dependencies": [done.id]}, NOW)
        await jobs.amend("default", two.id, {"dependencies": [failed.id, waits.id]}, NOW)
        expect(
            await statuses(jobs, one, two, below),
            [JobStatus.READY, JobStatus.BLOCKED, JobStatus.BLOCKED],
        )
        await jobs.delete("default", one.id)
        await jobs.delete("default", done.id)

    async def test_an_amended_dependency_is_waited_for(self, jobs: JobStore) -> None:
        old, new = a_job(name="old"), a_job(name="new")
        child = a_job(dependencies=[old.id])
        await jobs.insert([old, new, child], NOW)
        await jobs.amend("default", child.id, {"dependencies": [new.id]}, NOW)
        leased = {job.name: job for job in await take(jobs)}
        expect((await end(jobs, leased["old"])).released, ())
        expect((await end(jobs, leased["new"])).released, (child.id,))

    async def test_a_refused_amendment_changes_nothing(self, jobs: JobStore) -> None:
        parent = a_job(name="parent")
        child = a_job(dependencies=[parent.id], name="child")
        below = a_job(dependencies=[child.id], name="below")
        await jobs.insert([parent, child, below], NOW)
        before = await everything(jobs)
        for job, fields, refusal in (
            (child, {"priority": 11}, InvalidJobError),
            (child, {"status": "READY"}, InvalidJobError),
            (child, {"dependencies": [below.id]}, DependencyCycleError),
            (child, {"dependencies": [a_job().id]}, UnknownDependencyError),
            (parent, {"dependencies": [child.id]}, DependenciesFixedError),
        ):
            with pytest.raises(refusal):
                await jobs.amend("default", job.id, fields, NOW)
        with pytest.raises(JobNotFoundError):
            await jobs.amend("other", child.id, {"priority": 1}, NOW)
        expect(await everything(jobs), before)

    async def test_an_ended_job_is_not_amended(self, jobs: JobStore) -> None:
        job = a_job()
        (leased,) = await start(jobs, [job])
        await end(jobs, leased)
        with pytest.raises(JobEndedError):
            await jobs.amend("default", job.id, {"priority": 1}, NOW)

    async def test_a_kind_under_which_the_key_is_taken_is_refused(self, jobs: JobStore) -> None:
        one = a_job(kind="one", idempotency_key="key")
        two = a_job(kind="two", idempotency_key="key")
        await jobs.insert([one, two], NOW)
        with pytest.raises(DuplicateJobError) as refusal:
            await jobs.amend("default", two.id, {"kind": "one"}, NOW)
        expect(refusal.value.job_id, one.id)
        await jobs.amend("default", two.id, {"kind": "three"}, NOW)
        (answer,) = await jobs.insert([a_job(kind="three", idempotency_key="key")], NOW)
        expect(answer.job.id, two.id)
        (answer,) = await jobs.insert([a_job(kind="two", idempotency_key="key")], NOW)
        expect(answer.is_existing, expected=False)


class RemovingContract(JobStoreFixture):
    """What may go, and what goes with it."""

    async def test_a_deleted_job_is_gone(self, jobs: JobStore) -> None:
        job = a_job()
        (leased,) = await start(jobs, [job])
        await end(jobs, leased, Failed("no"))
        kept = await find(jobs, job.id)
        expect(await jobs.delete("default", job.id), kept)
        expect(await statuses(jobs, job), [None])
        expect(await jobs.attempts("default", job.id), [])
        expect(await take(jobs, NOW + DAY), [])
        expect(await jobs.next_due_at(NOW), None)
        with pytest.raises(JobNotFoundError):
            await jobs.delete("default", job.id)

    async def test_a_running_job_can_be_deleted_and_its_result_is_discarded(
        self, jobs: JobStore
    ) -> None:
        job = a_job()
        (leased,) = await start(jobs, [job])
        await jobs.delete("default", job.id)
        expect((await end(jobs, leased)).is_stale, expected=True)
        expect(await jobs.find_expired(NOW + DAY, 10), [])
        expect(await everything(jobs), [])

    async def test_a_job_others_depend_on_is_not_deleted(self, jobs: JobStore) -> None:
        parent = a_job()
        child = a_job(dependencies=[parent.id])
        (leased,) = await start(jobs, [parent, child])
        await end(jobs, leased, Discarded("no"))
        with pytest.raises(HasDependentsError) as refusal:
            await jobs.delete("default", parent.id)
        expect(refusal.value.dependents, [child.id])
        with pytest.raises(JobNotFoundError):
            await jobs.delete("other", child.id)
        await jobs.delete("default", child.id)
        await jobs.delete("default", parent.id)
        expect(await everything(jobs), [])

    async def test_ended_jobs_are_pruned_when_they_expire(self, jobs: JobStore) -> None:
        *ended, _ = await start(jobs, [a_job(name=name) for name in ("1", "2", "3", "runs")])
        for leased in ended:
            outcome = Discarded("no") if leased.name == "2" else None
            await end(jobs, leased, outcome, NOW + int(leased.name) * SECOND)
        await jobs.insert([a_job(name="waits")], NOW)
        expect((await jobs.prune(NOW + SECOND, 10)).removed, 0)
        expect((await jobs.prune(NOW + 3 * SECOND, 1)).removed, 1)
        expect(names(await everything(jobs)), ["2", "3", "runs", "waits"])
        expect((await jobs.prune(NOW + 3 * SECOND, 10)).removed, 1)
        expect(await jobs.attempts("default", ended[1].id), [])
        expect((await jobs.prune(NOW + DAY, 10)).removed, 1)
        expect(names(await everything(jobs)), ["runs", "waits"])

    async def test_a_job_others_depend_on_is_not_pruned(self, jobs: JobStore) -> None:
        parent = a_job(name="parent")
        child = a_job(name="child", dependencies=[parent.id])
        below = a_job(name="below", dependencies=[child.id, parent.id])
        await jobs.insert([parent, child, below], NOW)
        for _ in range(2):
            (leased,) = await take(jobs)
            expect((await jobs.prune(NOW + DAY, 10)).removed, 0)
            await end(jobs, leased)
        expect((await jobs.prune(NOW + DAY, 10)).removed, 0)
        (leased,) = await take(jobs)
        await end(jobs, leased)
        expect((await jobs.prune(NOW + DAY, 2)).removed, 2)
        expect(names(await everything(jobs)), ["parent"])
        expect((await jobs.prune(NOW + DAY, 2)).removed, 1)

    async def test_pruning_removes_what_the_rules_of_its_tenant_and_kind_say(
        self, jobs: JobStore
    ) -> None:
        await jobs.insert(
            [
                a_job(name="plain"),
                a_job(name="kept kind", kind="kept"),
                a_job(name="dead", retry_policy=RetryPolicy(max_attempts=1)),
                a_job(name="other tenant", tenant="other"),
                a_job(name="kept tenant", tenant="keeper"),
            ],
            NOW,
        )
        for leased in await take(jobs):
            await end(jobs, leased, Failed("no") if leased.name == "dead" else None)
        rules = [_rule(kind="kept", ended=FOREVER), _rule(tenant="keeper", ended=3 * DAY)]
        retention = Retention(Keep(ended=MINUTE, dead=DAY), rules)
        late = NOW + 2 * MINUTE
        expect(await _prune(jobs, retention, late, is_preview=True), 2)
        expect(await _prune(jobs, retention, late), 2)
        expect(sorted(names(await everything(jobs))), ["dead", "kept kind"])
        expect(names(await everything(jobs, "other")), [])
        expect(names(await everything(jobs, "keeper")), ["kept tenant"])
        expect(await _prune(jobs, retention, NOW + 2 * DAY), 1)
        expect(names(await everything(jobs)), ["kept kind"])

    async def test_pruning_continues_where_it_stopped(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(name=str(number)) for number in range(5)], NOW)
        for leased in await take(jobs):
            await end(jobs, leased, None, NOW + int(leased.name) // 2 * SECOND)
        expiry = Expiry(Retention(Keep(ended=DAY)), NOW + MINUTE)  # which removes none of them
        looked, place = [], None
        for _ in range(3):
            pruned = await jobs.prune(NOW + MINUTE, 2, expiry, place)
            expect(pruned.removed, 0)
            place = pruned.place
            looked.append(pruned.looked)
        expect((looked, place), ([2, 2, 1], None))

    async def test_a_parent_is_pruned_by_its_own_rule_after_its_last_dependent(
        self, jobs: JobStore
    ) -> None:
        old, kept = a_job(name="old"), a_job(name="kept", kind="kept")
        child = a_job(name="child", kind="child", dependencies=[old.id, kept.id])
        await jobs.insert([old, kept, child], NOW)
        for _ in range(2):
            for leased in await take(jobs):
                await end(jobs, leased)
        retention = Retention(
            Keep(ended=SECOND), [_rule(kind="child", ended=DAY), _rule(kind="kept", ended=FOREVER)]
        )
        expect(await _prune(jobs, retention, NOW + MINUTE), 0)
        expect(await _prune(jobs, retention, NOW + 2 * DAY), 2)
        expect(names(await everything(jobs)), ["kept"])

    async def test_results_and_attempts_can_expire_before_their_job(self, jobs: JobStore) -> None:
        twice = a_job()
        await jobs.insert([twice], NOW)
        await end(jobs, (await take(jobs))[0], Failed("once"))
        await end(jobs, (await take(jobs, NOW + MINUTE))[0], Succeeded(b"7"), NOW + MINUTE)
        late = NOW + 2 * MINUTE
        for keep, history, result in (
            (Keep(ended=DAY), ["failed", "succeeded"], {twice.id: b"7"}),
            (Keep(ended=DAY, results=SECOND), ["failed", "succeeded"], {}),
            (Keep(ended=DAY, attempts=SECOND), ["succeeded"], {}),
        ):
            expect(await _prune(jobs, Retention(keep), late), 0)
            expect(await jobs.results("default", [twice.id]), result)
            attempts = await jobs.attempts("default", twice.id)
            expect([each.outcome for each in attempts], history)
        expect(await statuses(jobs, twice), [JobStatus.COMPLETED])


def _rule(tenant: str | None = None, kind: str | None = None, **keep: timedelta) -> RetentionRule:
    return RetentionRule(tenant=tenant, kind=kind, keep=Keep(**keep))


async def _prune(
    jobs: JobStore, retention: Retention, now: datetime, *, is_preview: bool = False
) -> int:
    """Apply the rules to all jobs that have ended; how many are removed."""
    expiry = Expiry(retention, now, is_preview)
    return (await jobs.prune(now - retention.job_ages()[-1], 100, expiry)).removed


class ClosingContract(JobStoreFixture):
    """Closed is closed."""

    async def test_a_closed_store_refuses_every_verb(self, jobs: JobStore) -> None:
        await jobs.close()
        job = a_job()
        calls: list[Awaitable[object]] = [
            jobs.insert([job], NOW),
            take(jobs),
            jobs.extend([HeldLease(job.id, 1)], NOW, NOW),
            jobs.apply([], NOW),
            jobs.find_expired(NOW, 1),
            jobs.next_due_at(NOW),
            jobs.survey(NOW),
            jobs.get("default", [job.id]),
            jobs.find("default"),
            jobs.count("default"),
            jobs.attempts("default", job.id),
            jobs.find_dependents("default", [job.id], 1),
            jobs.amend("default", job.id, {}, NOW),
            jobs.delete("default", job.id),
            jobs.prune(NOW, 1),
        ]
        for call in calls:
            with pytest.raises(StoreClosedError):
                await call
        with pytest.raises(StoreClosedError):
            await jobs.listen().__aenter__()

    async def test_closing_twice_is_allowed(self, jobs: JobStore) -> None:
        await jobs.close()
        await jobs.close()


async def _read_pages(jobs: JobStore, kept: list[Job], wanted: JobFilter) -> list[Job]:
    """All jobs that a filter accepts, in pages that are as the rules say."""
    cursor, met = None, []
    while True:
        page = await jobs.find("default", wanted, cursor=cursor, limit=2)
        expect(page, list_jobs(kept, wanted, cursor=cursor, limit=2))
        met += page.items
        cursor = page.next_cursor
        if cursor is None:
            return met
