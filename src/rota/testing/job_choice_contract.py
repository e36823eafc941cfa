"""Leases by kind and by version label: a caller is given only what it can run."""

from collections import Counter
from datetime import timedelta

from rota.jobs import JobStatus
from rota.stores.protocol import LOOK_AHEAD, Cap, JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_fixture import (
    DAY,
    NOW,
    SECOND,
    JobStoreFixture,
    find,
    names,
    statuses,
    take,
)
from rota.testing.store_contract import expect


class ChoiceContract(JobStoreFixture):
    """Jobs that the caller cannot run stay where they are."""

    async def test_only_the_chosen_kinds_are_leased(self, jobs: JobStore) -> None:
        mine = [a_job(kind=kind, priority=priority) for kind, priority in (("a", 1), ("b", 9))]
        other = a_job(kind="c", priority=10)
        await jobs.insert([*mine, other], NOW)
        expect([job.kind for job in await take(jobs, kinds=["a", "b"])], ["b", "a"])
        expect(await statuses(jobs, other), [JobStatus.READY])
        kept = await find(jobs, other.id)
        expect(kept, other)
        expect(await take(jobs, kinds=[]), [])
        expect([job.kind for job in await take(jobs, kinds=["c", "absent"])], ["c"])

    async def test_a_labelled_job_goes_to_those_that_offer_its_label(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(name="new", label="v2"), a_job(name="any")], NOW)
        expect(names(await take(jobs, labels=["v1"])), ["any"])
        expect(await take(jobs, labels=[]), [])
        (leased,) = await take(jobs, labels=["v1", "v2"])
        expect((leased.name, leased.label), ("new", "v2"))

    async def test_without_labels_every_job_is_leased(self, jobs: JobStore) -> None:
        await jobs.insert([a_job(name="new", label="v2"), a_job(name="any")], NOW)
        expect(names(await take(jobs)), ["new", "any"])

    async def test_kind_and_label_must_both_fit(self, jobs: JobStore) -> None:
        wanted = [("a", "v1"), ("a", "v2"), ("b", "v1"), ("b", None)]
        await jobs.insert([a_job(kind=kind, label=label) for kind, label in wanted], NOW)
        leased = await take(jobs, kinds=["a"], labels=["v1"])
        expect([(job.kind, job.label) for job in leased], [("a", "v1")])

    async def test_a_changed_kind_or_label_decides(self, jobs: JobStore) -> None:
        job = a_job(kind="a", label="v1")
        await jobs.insert([job], NOW)
        await jobs.amend("default", job.id, {"kind": "b", "label": None}, NOW)
        expect(await take(jobs, kinds=["a"], labels=["v1"]), [])
        expect([it.kind for it in await take(jobs, kinds=["b"], labels=[])], ["b"])

    async def test_jobs_that_come_due_later_are_chosen_as_well(self, jobs: JobStore) -> None:
        due_at = NOW + SECOND
        await jobs.insert([a_job(kind=kind, due_at=due_at) for kind in "ab"], NOW)
        expect(await take(jobs, kinds=["b"]), [])
        expect([job.kind for job in await take(jobs, due_at, kinds=["b"])], ["b"])

    async def test_chosen_jobs_come_in_order_behind_others(self, jobs: JobStore) -> None:
        others = [a_job(kind="other", priority=10) for _ in range(40)]
        mine = [
            a_job(name=f"{age}", kind="mine", created_at=NOW - DAY + timedelta(seconds=age))
            for age in range(30)
        ]
        await jobs.insert([*reversed(mine), *others], NOW)
        expect(names(await take(jobs, limit=12, kinds=["mine"])), [str(age) for age in range(12)])

    async def test_a_tenant_without_a_chosen_job_holds_up_no_other(self, jobs: JobStore) -> None:
        idle = [a_job(tenant=f"a{number:02}", kind="other") for number in range(60)]
        await jobs.insert([*idle, *(a_job(tenant="z", kind="mine") for _ in range(5))], NOW)
        expect(len(await take(jobs, limit=3, kinds=["mine"])), 3)

    async def test_tenants_with_chosen_jobs_share_a_lease(self, jobs: JobStore) -> None:
        await jobs.insert(
            [
                *(a_job(tenant="a", kind="other") for _ in range(10)),
                *(a_job(tenant=tenant, kind="mine") for tenant in "abc" for _ in range(10)),
            ],
            NOW,
        )
        leased = await take(jobs, limit=9, kinds=["mine"])
        expect(Counter(job.tenant for job in leased), Counter(a=3, b=3, c=3))

    async def test_caps_and_ageing_apply_to_chosen_jobs(self, jobs: JobStore) -> None:
        await jobs.insert(
            [
                a_job(kind=kind, queue="mail", label=label)
                for kind in "ab"
                for label in ("v1", None)
            ],
            NOW,
        )
        leased = await take(jobs, kinds=["b"], labels=["v1"], caps=(Cap(queue="mail", running=1),))
        expect([(job.kind, job.label) for job in leased], [("b", "v1")])
        aged = await take(jobs, kinds=["b"], ageing={"mail": SECOND})
        expect([(job.kind, job.label) for job in aged], [("b", None)])

    async def test_a_lease_looks_a_bounded_number_of_jobs_ahead(self, jobs: JobStore) -> None:
        """The last job within the bound is found, and one beyond it waits."""
        await jobs.insert([a_job(kind="other") for _ in range(LOOK_AHEAD - 1)], NOW)
        await jobs.insert([a_job(name="within", kind="mine")], NOW)
        await jobs.insert([a_job(kind="other"), a_job(name="beyond", kind="mine")], NOW)
        expect(names(await take(jobs, kinds=["mine"])), ["within"])
        expect(await take(jobs, kinds=["mine"]), [])
        expect(len(await take(jobs, limit=10, kinds=["other"])), 10)
        expect(names(await take(jobs, kinds=["mine"])), ["beyond"])
