"""Jobs that are dead: looked at, retried and discarded."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.rail.driving import end, run_due, take

from rota.errors import (
    HasDependentsError,
    InvalidInputError,
    InvalidJobError,
    JobNotFoundError,
)
from rota.jobs import Discarded, Failed, JobId, JobStatus, RetryPolicy
from rota.policy.once import effect_key
from rota.rail import DeadLetterFilter, DeadLetters, Rail, Retried, RetryPlan, read_audit
from rota.rail.dead_letters import HIGHEST_RETRY, find_blocked
from rota.stores.memory import MemoryStore
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ONCE = RetryPolicy(max_attempts=1)
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def dead(store: MemoryStore, clock: VirtualClock) -> DeadLetters:
    return DeadLetters(store, "guild-7", clock=clock, draw_bits=Random(2).getrandbits)


async def kill(
    rail: Rail, store: MemoryStore, kind: str = "send", error: str = "boom", **fields: Any
) -> JobId:
    """A job whose only attempt has failed."""
    job_id = await rail.schedule_once(kind, {"n": 1}, run_at=0, retry_policy=ONCE, **fields)
    await run_due(store, NOW, Failed(error))
    return job_id


async def test_dead_letters_are_listed_by_what_is_wanted(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    timed_out = await kill(rail, store, error="timed out")
    other = await kill(rail, store, kind="other", queue="mail")
    hopeless = await rail.schedule_once("send", {}, run_at=NOW)
    await run_due(store, NOW, Discarded("payload refused"))
    cancelled = await rail.schedule_once("send", {}, run_at=NOW)
    await rail.cancel(cancelled)
    await rail.schedule_once("send", {}, run_at=NOW)

    async def found(**wanted: Any) -> set[str]:
        return {job.job_id for job in (await dead.list(DeadLetterFilter(**wanted))).items}

    assert {job.job_id for job in (await dead.list()).items} == {timed_out, other}
    assert await found(with_discarded=True) == {timed_out, other, hopeless}
    assert await found(kind="other") == await found(queue="mail") == {other}
    assert await found(error_contains="timed") == {timed_out}
    assert await found(ended_after=NOW, ended_before=NOW + HOUR) == {timed_out, other}
    assert await found(ended_after=NOW + HOUR) == await found(ended_before=NOW) == set()


async def test_every_attempt_is_shown_with_its_error_worker_and_times(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    twice = RetryPolicy(max_attempts=2)
    job_id = await rail.schedule_once("send", {}, run_at=NOW, retry_policy=twice)
    for number in range(2):
        (job,) = await take(store, NOW + number * HOUR)
        ended_at = NOW + number * HOUR + timedelta(seconds=5)
        await end(store, job, ended_at, Failed(f"error {number + 1}"))
    letter = await dead.inspect(job_id)
    assert (letter.job.state, letter.job.attempts) == ("dlq", 2)
    assert [(each.number, each.error, each.worker) for each in letter.attempts] == [
        (1, "error 1", "w"),
        (2, "error 2", "w"),
    ]
    assert [each.lasted_for for each in letter.attempts] == [timedelta(seconds=5)] * 2


async def test_only_what_is_dead_and_the_tenants_own_is_a_dead_letter(
    rail: Rail, store: MemoryStore, dead: DeadLetters, clock: VirtualClock
) -> None:
    living = await rail.schedule_once("send", {}, run_at=NOW)
    job_id = await kill(Rail(store, "guild-8", clock=clock), store)
    for each in (living, job_id, NOBODY):
        with pytest.raises(JobNotFoundError):
            await dead.inspect(each)
        with pytest.raises(JobNotFoundError):
            await dead.retry(each)
        with pytest.raises(JobNotFoundError):
            await dead.discard([each])
    assert (await dead.list()).items == ()


async def test_a_retry_is_a_new_job_that_names_the_dead_one(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    job_id = await kill(rail, store, idempotency_key="k")
    retried = await dead.retry(job_id, who="ada", why="the mail server is back")
    new_id = retried.replacements[job_id]
    job = await rail.get(new_id)
    assert (job.state, job.attempts, job.replaces, job.payload) == ("queued", 0, job_id, {"n": 1})
    assert (await rail.get(job_id)).state == "dlq"
    old, new = (await store.get("guild-7", [job_id, new_id])).values()
    assert effect_key(old) == effect_key(new)
    assert [each.id for each in await run_due(store, NOW)] == [new_id]
    (entry,) = [entry async for entry in read_audit(store, "guild-7")]
    assert (entry.action, entry.who, entry.why) == ("retry", "ada", "the mail server is back")
    assert (entry.job_ids, entry.at) == ((job_id,), NOW)


async def test_a_job_is_not_retried_twice_but_its_retry_may_be(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    job_id = await kill(rail, store)
    first = await dead.retry(job_id)
    assert await dead.retry(job_id) == Retried(first.replacements, (job_id,))
    await run_due(store, NOW, Failed("again"))
    second_id = first.replacements[job_id]
    third = await dead.retry(second_id)
    jobs = await store.get("guild-7", [job_id, *first.replacements.values()])
    (new,) = (await store.get("guild-7", list(third.replacements.values()))).values()
    assert new.replaces == second_id
    assert {effect_key(each) for each in (*jobs.values(), new)} == {f"send:{job_id}:"}


async def test_many_are_planned_first_and_then_done_to_the_letter(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    ids = {await kill(rail, store) for _ in range(3)}
    plan = await dead.plan_retry()
    assert (set(plan.job_ids), plan.dependent_ids, plan.has_more) == (ids, (), False)
    assert await store.count("guild-7") == 3
    later = await kill(rail, store)
    retried = await dead.retry(plan, who="ada")
    assert set(retried.replacements) == ids
    assert later not in retried.replacements
    assert await store.count("guild-7") == 7
    part = await dead.plan_retry(DeadLetterFilter(with_retried=True), limit=2)
    assert (len(part.job_ids), part.has_more) == (2, True)
    assert await dead.retry(await dead.plan_retry(DeadLetterFilter(kind="none"))) is not None
    assert await store.count("guild-7") == 7


async def test_a_retried_job_is_not_a_dead_letter_any_more(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    """Until its replacement is dead, too: then that is the one."""
    job_id, other_id = await kill(rail, store), await kill(rail, store)
    new_id = (await dead.retry(job_id)).replacements[job_id]

    async def listed(**wanted: Any) -> set[JobId]:
        return {job.job_id for job in (await dead.list(DeadLetterFilter(**wanted))).items}

    assert await listed() == {other_id} == set((await dead.plan_retry()).job_ids)
    assert await listed(with_retried=True) == {job_id, other_id}
    await run_due(store, NOW, Failed("again"))
    assert await listed() == {new_id, other_id}


async def test_those_it_blocked_are_submitted_with_it(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    parent = await rail.schedule_once("send", {}, run_at=NOW, retry_policy=ONCE)
    done = a_job(tenant="guild-7", status=JobStatus.COMPLETED)
    child = a_job(tenant="guild-7", name="child", dependencies=[parent, done.id], due_at=NOW)
    grandchild = a_job(tenant="guild-7", name="grandchild", dependencies=[child.id], due_at=NOW)
    await store.insert([done, child, grandchild], NOW)
    for job in await take(store, NOW):
        await end(store, job, NOW, None if job.id == done.id else Failed("boom"))
    plan = await dead.plan_retry(cascade=True)
    assert plan == RetryPlan((parent,), tuple(sorted([child.id, grandchild.id])))
    retried = await dead.retry(parent, cascade=True)
    new = retried.replacements
    assert set(new) == {parent, child.id, grandchild.id}
    assert await dead.retry(plan) == Retried(new, tuple(new))
    for expected in (new[parent], new[child.id], new[grandchild.id]):
        assert [job.id for job in await run_due(store, NOW)] == [expected]


def test_only_those_that_wait_for_the_dead_are_found_and_each_once() -> None:
    dead, other = a_job(), a_job()
    left = a_job(dependencies=[dead.id])
    right = a_job(dependencies=[dead.id])
    below = a_job(dependencies=[left.id, right.id])
    apart = a_job(dependencies=[other.id])
    found = find_blocked([dead], [below, apart, right, left])
    assert [job.id for job in found] == sorted([left.id, right.id, below.id])


async def test_a_dead_occurrence_is_retried_beside_its_series(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    job_id = await rail.schedule_recurring("tick", {}, interval="1h", retry_policy=ONCE)
    await run_due(store, NOW, Failed("boom"))
    retried = await dead.retry(job_id)
    (job,) = await take(store, NOW)
    assert (job.id, job.recurrence, job.occurrence_at) == (
        retried.replacements[job_id],
        None,
        NOW,
    )
    assert (await end(store, job, NOW)).successor is None
    assert len(await take(store, NOW + HOUR)) == 1


async def test_a_discarded_letter_is_gone_and_audited(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    ids = [await kill(rail, store, error="x" * 500) for _ in range(2)]
    assert await dead.discard([*ids, ids[0]], who="ada", why="obsolete") == 2
    assert await store.count("guild-7") == 0
    (entry,) = [entry async for entry in read_audit(store, "guild-7")]
    assert (entry.action, set(entry.job_ids)) == ("discard", set(ids))
    assert set(entry.details["errors"].values()) == {"x" * 200}


async def test_a_letter_that_others_depend_on_is_not_discarded(
    rail: Rail, store: MemoryStore, dead: DeadLetters
) -> None:
    job_id = await kill(rail, store)
    await store.insert([a_job(tenant="guild-7", dependencies=[job_id])], NOW)
    with pytest.raises(HasDependentsError):
        await dead.discard([job_id])


async def test_an_invalid_filter_is_refused(dead: DeadLetters, store: MemoryStore) -> None:
    with pytest.raises(InvalidInputError, match="job_ids must be several"):
        await dead.discard(NOBODY)
    with pytest.raises(InvalidInputError, match="limit must be an integer"):
        await dead.plan_retry(limit=0)
    with pytest.raises(InvalidInputError, match="limit must be an integer"):
        await dead.discard(str(replace(a_job(), id=f"{NOBODY[:-4]}{n:04}").id) for n in range(1001))
    with pytest.raises(InvalidJobError, match="job_id must be a UUID"):
        await dead.inspect("nonsense")
    with pytest.raises(InvalidJobError, match="tenant must be"):
        DeadLetters(store, "no spaces")
    assert HIGHEST_RETRY == 1000
