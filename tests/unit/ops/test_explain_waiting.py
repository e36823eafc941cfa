"""Why jobs wait, run, or will run; each answer by the functions that decide."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.errors import InvalidJobError, JobNotFoundError
from rota.jobs import (
    JobStatus,
    RetryPolicy,
    decide_defer,
    decide_fail,
    decide_snooze,
)
from rota.ops.explain import explain_job
from rota.ops.explanation import Explanation, Reason
from rota.policy.gate_settings import EVERYTHING
from rota.policy.gates import Maintenance
from rota.policy.limits import Limit, Rate
from rota.policy.quiet_hours import QuietHours
from rota.policy.watch import LimitWatch
from rota.rail import Rail
from rota.rail.settings import set_limit, set_maintenance, set_quiet_hours
from rota.stores.memory import MemoryStore
from rota.stores.protocol import LeaseRequest
from rota.testing import VirtualClock, a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


async def ask(store: MemoryStore, clock: VirtualClock, job_id: str) -> Explanation:
    return await explain_job(store, clock, "default", job_id)


def only(explanation: Explanation, code: str) -> Reason:
    (found,) = [reason for reason in explanation.reasons if reason.code == code]
    return found


async def lease(store: MemoryStore, clock: VirtualClock) -> None:
    request = LeaseRequest(worker="anna", limit=10, lease_for=MINUTE)
    await store.lease(request, clock.now())


async def test_a_pending_job_names_the_jobs_it_waits_for(
    store: MemoryStore, clock: VirtualClock
) -> None:
    parents = [a_job(name="extract", due_at=NOW + HOUR), a_job(name="load")]
    child = a_job(dependencies=[job.id for job in parents])
    await store.insert([*parents, child], NOW)
    found = await ask(store, clock, child.id)
    assert found.answer == "waits"
    named = {reason.job_id: reason.text for reason in found.reasons if reason.code == "dependency"}
    assert set(named) == {job.id for job in parents}
    assert "extract" in named[parents[0].id]
    assert "ready, due at Fri 2026-05-01 13:00:00 UTC" in named[parents[0].id]


async def test_a_due_job_that_nothing_holds_waits_for_a_worker(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW - HOUR)
    await store.insert([job], NOW)
    found = await ask(store, clock, job.id)
    assert found.answer == "due"
    assert only(found, "due").at == NOW - HOUR
    assert "for 1 hour" in only(found, "due").text
    assert only(found, "no_worker").text == "No worker is known to run on this store."
    assert found.sentence == "It is due, but no worker takes it."


async def test_a_job_asked_for_later_will_run_then(store: MemoryStore, clock: VirtualClock) -> None:
    job = a_job(due_at=NOW + 26 * HOUR)
    await store.insert([job], NOW)
    found = await ask(store, clock, job.id)
    assert (found.answer, found.next_at) == ("will run", NOW + 26 * HOUR)
    assert found.sentence == "It will run at Sat 2026-05-02 14:00:00 UTC, in 1 day 2 hours."
    assert only(found, "later").at == NOW + 26 * HOUR


async def test_a_retry_says_its_number_its_error_and_its_backoff(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW, retry_policy=RetryPolicy(max_attempts=5, base_delay_seconds=20))
    await store.insert([job], NOW)
    await lease(store, clock)
    (leased,) = (await store.get("default", [job.id])).values()
    await store.apply([decide_fail(leased, "ValueError: no\nmore", NOW)], NOW)
    found = await ask(store, clock, job.id)
    retry = only(found, "retry")
    assert found.answer == "will run"
    assert "Attempt 1 of 5 failed" in retry.text
    assert "ValueError: no." in retry.text
    assert "after 20 seconds (exponential backoff)" in retry.text
    assert retry.until == NOW + timedelta(seconds=20) == found.next_at
    assert [reason.code for reason in found.reasons if reason.code == "snoozed"] == []


async def test_a_deferral_says_which_gate_and_until_when(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    await lease(store, clock)
    (leased,) = (await store.get("default", [job.id])).values()
    await store.apply([decide_defer(leased, NOW + HOUR, "quiet hours", NOW)], NOW)
    found = await ask(store, clock, job.id)
    assert only(found, "deferred").until == NOW + HOUR
    assert "quiet hours" in only(found, "deferred").text


async def test_a_snooze_differs_from_a_retry(store: MemoryStore, clock: VirtualClock) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    await lease(store, clock)
    (leased,) = (await store.get("default", [job.id])).values()
    await store.apply([decide_snooze(leased, HOUR, NOW)], NOW)
    found = await ask(store, clock, job.id)
    assert only(found, "snoozed").until == NOW + HOUR


async def test_a_closed_gate_names_its_reopening(store: MemoryStore, clock: VirtualClock) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    window = Maintenance(until=NOW + HOUR, reason="upgrade")
    await set_maintenance(store, EVERYTHING, window)
    found = await ask(store, clock, job.id)
    gate = only(found, "gate")
    assert (gate.until, found.next_at) == (NOW + HOUR, NOW + HOUR)
    assert "maintenance: upgrade" in gate.text
    assert found.sentence == "It is due, but a gate is closed to it."


async def test_quiet_hours_are_explained_with_their_uncertainty(
    store: MemoryStore, clock: VirtualClock
) -> None:
    hours = QuietHours(time(11), time(14), ZoneInfo("UTC"))
    await set_quiet_hours(store, "default", hours)
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    found = await ask(store, clock, job.id)
    assert only(found, "gate").text.startswith("If jobs of its kind notify people")
    assert only(found, "gate").until == NOW + 2 * HOUR


async def test_a_gate_that_will_be_closed_at_the_due_time_is_predicted(
    store: MemoryStore, clock: VirtualClock
) -> None:
    window = Maintenance(from_at=NOW + HOUR, until=NOW + 3 * HOUR)
    await set_maintenance(store, EVERYTHING, window)
    job = a_job(due_at=NOW + 2 * HOUR)
    await store.insert([job], NOW)
    found = await ask(store, clock, job.id)
    assert found.next_at == NOW + 3 * HOUR
    assert "a gate will be closed until Fri 2026-05-01 15:00:00 UTC" in found.sentence


async def test_a_full_limit_and_a_spent_rate_are_named(
    store: MemoryStore, clock: VirtualClock
) -> None:
    running, waiting = a_job(due_at=NOW - HOUR), a_job(due_at=NOW)
    await store.insert([running, waiting], NOW)
    await set_limit(store, Limit(queue="default", running=1), clock=clock)
    rate = Rate(count=1, per=HOUR)
    await set_limit(store, Limit(tenant="default", rate=rate), clock=clock)
    request = LeaseRequest(worker="anna", limit=1, lease_for=MINUTE)
    assert len((await LimitWatch(store).lease(request, NOW)).jobs) == 1
    found = await ask(store, clock, waiting.id)
    assert only(found, "limit").text == (
        "A limit is reached: queue default may run 1 at once, and that many are running."
    )
    assert only(found, "rate").until == NOW + HOUR


async def test_a_limit_of_one_tenant_does_not_affect_others(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    await set_limit(store, Limit(tenant="other", running=0), clock=clock)
    found = await ask(store, clock, job.id)
    assert [reason for reason in found.reasons if reason.code == "limit"] == []


async def test_a_running_job_names_its_worker_and_its_lease(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(due_at=NOW)
    await store.insert([job], NOW)
    await lease(store, clock)
    found = await ask(store, clock, job.id)
    held = only(found, "lease")
    assert (found.answer, held.who, held.until) == ("running", "anna", NOW + MINUTE)
    await clock.jump_to(NOW + HOUR)
    found = await ask(store, clock, job.id)
    assert (found.answer, only(found, "stalled").who) == ("stalled", "anna")


async def test_a_paused_series_names_who_paused_it_and_why(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_recurring("digest", {}, cron="0 9 * * *", tz="Europe/London")
    await rail.pause(job_id, who="ada", why="too many mails")
    found = await ask(store, clock, job_id)
    paused = only(found, "paused")
    assert (found.answer, paused.who) == ("waits", "ada")
    assert "too many mails" in paused.text


async def test_run_now_records_who_asked(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_once("send", {}, run_at=NOW + HOUR)
    await clock.advance(MINUTE)
    await rail.run_now(job_id, who="ada")
    assert only(await ask(store, clock, job_id), "moved").who == "ada"
    moved_id = await rail.schedule_once("send", {}, run_at=NOW + HOUR)
    await clock.advance(MINUTE)
    await rail.reschedule(moved_id, NOW + 2 * HOUR, who="bob")
    found = await ask(store, clock, moved_id)
    assert (found.answer, only(found, "moved").who) == ("will run", "bob")


async def test_an_occurrence_shows_its_rule_zone_and_dst_notes(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_recurring(
        "digest",
        {},
        rrule="FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=28;BYHOUR=1;BYMINUTE=30;BYSECOND=0",
        tz="Europe/London",
    )
    found = await ask(store, clock, job_id)
    assert "Europe/London" in only(found, "occurrence").text
    assert only(found, "occurrence").at == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    assert "clocks go forward: moved from 01:30" in only(found, "clock_change").text
    assert only(found, "next_occurrence").at == datetime(2028, 3, 28, 0, 30, tzinfo=UTC)


async def test_a_late_occurrence_reports_what_it_covers(
    store: MemoryStore, clock: VirtualClock, rail: Rail
) -> None:
    job_id = await rail.schedule_recurring("digest", {}, interval="1h")
    await clock.jump_to(NOW + 3 * HOUR + MINUTE)
    found = await ask(store, clock, job_id)
    assert "3 occurrences" in only(found, "missed").text
    assert only(found, "catch_up").at == NOW


async def test_a_job_of_another_tenant_is_not_there(
    store: MemoryStore, clock: VirtualClock
) -> None:
    job = a_job(tenant="other")
    await store.insert([job], NOW)
    with pytest.raises(JobNotFoundError):
        await ask(store, clock, job.id)
    with pytest.raises(InvalidJobError, match="job_id"):
        await ask(store, clock, "nonsense")


async def test_it_reads_as_a_text(store: MemoryStore, clock: VirtualClock) -> None:
    job = a_job(due_at=NOW + HOUR, status=JobStatus.READY)
    await store.insert([job], NOW)
    found = await ask(store, clock, job.id)
    assert str(found) == (
        "It will run at Fri 2026-05-01 13:00:00 UTC, in 1 hour.\n"
        "- That is the requested time.\n"
        "- No worker is known to run on this store."
    )
