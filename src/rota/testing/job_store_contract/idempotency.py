"""One job per tenant, kind, idempotency key and occurrence."""

import asyncio
from typing import Any

import pytest

from rota.errors import DuplicateJobError
from rota.jobs import JobStatus
from rota.stores.protocol import JobStore
from rota.testing.builders import a_job
from rota.testing.job_store_contract.fixture import (
    NOW,
    JobStoreFixture,
    end,
    everything,
    expect,
    statuses,
    take,
)


class IdempotencyContract(JobStoreFixture):
    """Whoever asks twice gets one job."""

    async def test_the_same_key_returns_the_existing_job(self, jobs: JobStore) -> None:
        first = a_job(idempotency_key="key", payload={"a": 1, "b": {"c": 2, "d": 3}})
        again = a_job(idempotency_key="key", payload={"b": {"d": 3, "c": 2}, "a": 1})
        await jobs.insert([first], NOW)
        (answer,) = await jobs.insert([again], NOW)
        expect((answer.job, answer.is_existing), (first, True))
        expect(await everything(jobs), [first])

    async def test_the_same_key_with_a_different_payload_is_refused(self, jobs: JobStore) -> None:
        first = a_job(idempotency_key="key", payload=[1])
        await jobs.insert([first], NOW)
        others: list[Any] = [[2], [1, 1], {}, [1.0], ["1"], [True]]
        for payload in others:
            with pytest.raises(DuplicateJobError) as refusal:
                await jobs.insert([a_job(), a_job(idempotency_key="key", payload=payload)], NOW)
            expect(refusal.value.job_id, first.id)
        expect(await everything(jobs), [first])

    async def test_what_differs_in_tenant_kind_key_or_occurrence_is_another(
        self, jobs: JobStore
    ) -> None:
        different = [
            a_job(idempotency_key="key"),
            a_job(idempotency_key="key", tenant="other"),
            a_job(idempotency_key="key", kind="other"),
            a_job(idempotency_key="other"),
            a_job(idempotency_key="key", occurrence="1"),
            a_job(idempotency_key="key", occurrence="2"),
        ]
        answers = await jobs.insert(different, NOW)
        expect([answer.is_existing for answer in answers], [False] * 6)

    async def test_without_a_key_nothing_is_a_duplicate(self, jobs: JobStore) -> None:
        answers = await jobs.insert([a_job(occurrence="1"), a_job(occurrence="1")], NOW)
        expect([answer.is_existing for answer in answers], [False, False])

    async def test_twins_in_one_call_are_one_job(self, jobs: JobStore) -> None:
        twins = [a_job(idempotency_key="key") for _ in range(3)]
        answers = await jobs.insert(twins, NOW)
        expect([answer.job for answer in answers], [twins[0]] * 3)
        expect([answer.is_existing for answer in answers], [False, True, True])
        with pytest.raises(DuplicateJobError):
            await jobs.insert([a_job(idempotency_key="k", payload=n) for n in range(2)], NOW)
        expect(await everything(jobs), [twins[0]])

    async def test_callers_at_the_same_time_get_the_same_job(self, jobs: JobStore) -> None:
        twins = [a_job(idempotency_key="key") for _ in range(20)]
        answers = await asyncio.gather(*(jobs.insert([twin], NOW) for twin in twins))
        expect(len({answer.job.id for (answer,) in answers}), 1)
        expect(sum(not answer.is_existing for (answer,) in answers), 1)

    async def test_an_ended_job_still_stands_for_its_key(self, jobs: JobStore) -> None:
        job = a_job(idempotency_key="key")
        await jobs.insert([job], NOW)
        (leased,) = await take(jobs)
        await end(jobs, leased)
        (answer,) = await jobs.insert([a_job(idempotency_key="key")], NOW)
        expect((answer.job.id, answer.job.status), (job.id, JobStatus.COMPLETED))

    async def test_a_key_is_free_again_when_its_job_is_gone(self, jobs: JobStore) -> None:
        job = a_job(idempotency_key="key", payload=1)
        await jobs.insert([job], NOW)
        await jobs.delete("default", job.id)
        (answer,) = await jobs.insert([a_job(idempotency_key="key", payload=2)], NOW)
        expect(answer.is_existing, expected=False)

    async def test_whoever_depends_on_a_duplicate_depends_on_the_existing_job(
        self, jobs: JobStore
    ) -> None:
        first = a_job(idempotency_key="key")
        await jobs.insert([first], NOW)
        again = a_job(idempotency_key="key")
        child = a_job(dependencies=[again.id, first.id])
        answers = await jobs.insert([child, again], NOW)
        expect(answers[0].job.dependencies, (first.id,))
        expect(await statuses(jobs, again, child), [None, JobStatus.PENDING])
        (leased,) = await take(jobs)
        expect((await end(jobs, leased)).released, (child.id,))
