"""Whether a job or its series ran at some instant, or will, and why."""

from datetime import UTC, datetime, timedelta

import pytest

from rota.errors import JobNotFoundError
from rota.jobs import Job, decide_complete, decide_discard, decide_fail
from rota.ops.explain_at import explain_job_at
from rota.ops.explanation import Explanation
from rota.policy.gate_settings import EVERYTHING
from rota.policy.gates import Maintenance
from rota.rail import Rail
from rota.rail.settings import set_maintenance
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NINE = datetime(2026, 5, 2, 8, tzinfo=UTC)
"""The next nine o'clock in London."""


@pytest.fixture
async def daily(rail: Rail) -> str:
    return await rail.schedule_recurring("digest", {}, cron="0 9 * * *", tz="Europe/London")


async def ask(store: MemoryStore, clock: VirtualClock, job_id: str, at: datetime) -> Explanation:
    return await explain_job_at(store, clock, "default", job_id, at)


def codes(told: Explanation) -> list[str]:
    return [reason.code for reason in told.reasons]


def words(told: Explanation) -> str:
    return str(told)


async def lease(store: MemoryStore, now: datetime) -> Job:
    request = LeaseRequest(worker="anna", limit=1, lease_for=HOUR)
    (job,) = await store.lease(request, now)
    return job


async def run(
    store: MemoryStore, clock: VirtualClock, at: datetime, lasting: timedelta = MINUTE
) -> None:
    await clock.jump_to(at)
    job = await lease(store, at)
    await clock.jump_to(at + lasting)
    await store.apply([decide_complete(job, at + lasting)], at + lasting)


async def test_an_occurrence_to_come_will_run(
    store: MemoryStore, clock: VirtualClock, daily: str
) -> None:
    found = await ask(store, clock, daily, NINE + 30 * timedelta(seconds=1))
    assert (found.answer, found.next_at) == ("will run", NINE)
    assert found.sentence == "It will run at Sat 2026-05-02 09:00:00 BST (08:00:00 UTC)."
    assert "0 9 * * *" in words(found)
    later = await ask(store, clock, daily, NINE + 10 * DAY)
    assert later.answer == "will run"
    assert "overlap" in codes(later)


async def test_an_instant_that_is_not_an_occurrence_names_the_next_one(
    store: MemoryStore, clock: VirtualClock, daily: str
) -> None:
    found = await ask(store, clock, daily, NINE + HOUR)
    assert found.answer == "will not run"
    assert "its rule has no occurrence then" in found.sentence
    assert "Sun 2026-05-03 09:00:00 BST" in words(found)
    past = await ask(store, clock, daily, NOW - MINUTE)
    assert past.answer == "did not run"


async def test_a_time_without_an_offset_is_on_the_clock_of_the_series(
    store: MemoryStore, clock: VirtualClock, daily: str
) -> None:
    found = await ask(store, clock, daily, datetime(2026, 5, 2, 9))  # noqa: DTZ001 - a wall time
    assert (found.answer, found.at) == ("will run", NINE)


async def test_a_skipped_wall_time_is_explained(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    skipped = datetime(2027, 3, 28, 1, 30)  # noqa: DTZ001 - a wall time
    cron = await rail.schedule_recurring("a", {}, cron="30 1 * * *", tz="Europe/London")
    found = await ask(store, clock, cron, skipped)
    assert found.answer == "will not run"
    assert found.sentence == "It will not run then: the clocks go forward past that time."
    assert "does not exist in Europe/London" in words(found)
    rule = await rail.schedule_recurring(
        "b", {}, rrule="FREQ=DAILY;BYHOUR=1;BYMINUTE=30;BYSECOND=0", tz="Europe/London"
    )
    moved = await ask(store, clock, rule, skipped)
    assert moved.answer == "will run"
    assert "clocks go forward: moved from 01:30" in words(moved)


async def test_a_repeated_wall_time_is_explained(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_recurring("a", {}, cron="30 1 * * *", tz="Europe/London")
    second = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert "clocks go back: second 01:30" in words(await ask(store, clock, job_id, second))


async def test_until_and_count_end_a_series(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    until = await rail.schedule_recurring("a", {}, interval="1h", until=NOW + 2 * HOUR)
    assert (await ask(store, clock, until, NOW + 2 * HOUR)).answer == "will run"
    found = await ask(store, clock, until, NOW + 3 * HOUR)
    assert (found.answer, codes(found)[0]) == ("will not run", "series_end")
    counted = await rail.schedule_recurring("b", {}, interval="1h", count=3)
    assert (await ask(store, clock, counted, NOW + 2 * HOUR)).answer == "will run"
    found = await ask(store, clock, counted, NOW + 3 * HOUR)
    assert (found.answer, codes(found)[0]) == ("will not run", "series_end")
    assert "3 occurrences left" in words(found)


async def test_a_paused_series_will_not_run_and_did_not(
    store: MemoryStore, clock: VirtualClock, rail: Rail, daily: str
) -> None:
    await rail.pause(daily, who="ada")
    found = await ask(store, clock, daily, NINE)
    assert (found.answer, codes(found)[0]) == ("will not run", "paused")
    await clock.jump_to(NINE + HOUR)
    await rail.resume(daily, who="ada")
    found = await ask(store, clock, daily, NINE)
    assert (found.answer, found.reasons[0].who) == ("did not run", "ada")


async def test_a_closed_gate_is_foreseen(
    store: MemoryStore, clock: VirtualClock, daily: str
) -> None:
    window = Maintenance(from_at=NINE - HOUR, until=NINE + HOUR, reason="upgrade")
    await set_maintenance(store, EVERYTHING, window)
    found = await ask(store, clock, daily, NINE)
    assert (found.answer, found.next_at) == ("will run", NINE + HOUR)
    assert "a gate will be closed until Sat 2026-05-02 10:00:00 BST" in found.sentence


async def test_a_run_is_remembered_and_found_from_any_job_of_its_series(
    store: MemoryStore, clock: VirtualClock, daily: str
) -> None:
    await run(store, clock, NINE)
    live = (await store.find("default")).items[0]
    for job_id in (daily, live.id):
        found = await ask(store, clock, job_id, NINE)
        assert (found.answer, found.reasons[0].job_id) == ("ran", daily)
        assert "was done at Sat 2026-05-02 09:01:00 BST" in words(found)
    assert (await ask(store, clock, daily, NINE + DAY)).reasons[-1].job_id == live.id


async def test_an_occurrence_during_another_run_was_skipped(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_recurring("a", {}, interval="1h")
    await run(store, clock, NOW, lasting=150 * MINUTE)
    found = await ask(store, clock, job_id, NOW + 2 * HOUR)
    assert (found.answer, codes(found)[0]) == ("did not run", "overlap")
    assert found.reasons[0].job_id == job_id
    assert "until Fri 2026-05-01 14:30:00 UTC" in words(found)
    running = await ask(store, clock, job_id, NOW + 5 * MINUTE)
    assert running.answer == "did not run"
    assert "was done at" in running.reasons[0].text


async def test_before_it_began_and_after_it_ended_nothing_ran(
    store: MemoryStore, clock: VirtualClock, rail: Rail, daily: str
) -> None:
    found = await ask(store, clock, daily, NINE - 3 * DAY)
    assert (found.answer, codes(found)[0]) == ("did not run", "later")
    await rail.cancel(daily, who="ada")
    await clock.jump_to(NINE + DAY + HOUR)
    found = await ask(store, clock, daily, NINE + DAY)
    assert (found.answer, codes(found)[0]) == ("did not run", "series_end")
    found = await ask(store, clock, daily, NINE + 5 * DAY)
    assert (found.answer, codes(found)[0]) == ("will not run", "series_end")


@pytest.mark.usefixtures("daily")
async def test_history_that_was_not_kept_is_unknown(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await run(store, clock, NINE)
    await run(store, clock, NINE + DAY)
    await store.prune(NINE + DAY, 10)
    live = (await store.find("default")).items[0]
    found = await ask(store, clock, live.id, NINE)
    assert found.answer == "not known"


async def test_a_job_that_does_not_recur_is_judged_by_its_attempts(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(created_at=NOW, due_at=NOW + MINUTE)
    await store.insert([job], NOW)
    assert (await ask(store, clock, job.id, NOW - HOUR)).answer == "did not run"
    assert (await ask(store, clock, job.id, NOW + MINUTE)).answer == "will run"
    assert (await ask(store, clock, job.id, NOW + HOUR)).answer == "will run"
    assert (await ask(store, clock, job.id, NOW + timedelta(seconds=1))).answer == "will not run"
    await clock.jump_to(NOW + MINUTE)
    leased = await lease(store, clock.now())
    assert (await ask(store, clock, job.id, NOW + MINUTE)).answer == "running"
    await clock.jump_to(NOW + 3 * MINUTE)
    await store.apply([decide_fail(leased, "KeyError: 'x'", clock.now())], clock.now())
    found = await ask(store, clock, job.id, NOW + 2 * MINUTE)
    assert (found.answer, found.reasons[0].code) == ("ran", "attempt")
    leased = await lease(store, NOW + 4 * MINUTE)
    await store.apply([decide_discard(leased, "no", NOW + 4 * MINUTE)], NOW + 4 * MINUTE)
    assert (await ask(store, clock, job.id, NOW + HOUR)).answer == "will not run"
    await clock.jump_to(NOW + 2 * HOUR)
    assert (await ask(store, clock, job.id, NOW + HOUR)).answer == "did not run"


async def test_a_job_of_another_tenant_has_no_instants(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(tenant="other")
    await store.insert([job], NOW)
    with pytest.raises(JobNotFoundError):
        await ask(store, clock, job.id, NOW)
