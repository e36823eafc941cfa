"""Series with their next and last runs, tasks, and the whole on one page."""

from datetime import UTC, datetime, timedelta
from time import process_time
from zoneinfo import ZoneInfo

import msgspec
import pytest
from tests.unit.turns import count_turns

from rota.errors import InvalidCursorError, InvalidJobError, JobNotFoundError
from rota.fleet.presence import WORKERS, WorkerPresence
from rota.jobs import Ending, JobStatus, Recurrence, RetryPolicy, decide_complete, decide_fail
from rota.ops.overview import count_jobs, take_overview
from rota.ops.queues import list_queues
from rota.ops.series import find_any_series, find_series, list_ended_series, list_series
from rota.ops.tasks import explain_one_task, list_tasks, plan_tasks
from rota.rail import Rail
from rota.scheduler import Scheduler, SchedulerPolicy
from rota.server.pages.outlook import preview_task
from rota.stores.memory import MemoryStore
from rota.stores.protocol import DocumentWrite, LeaseRequest
from rota.testing import VirtualClock, a_job, seed_tasks
from rota.triggers.cron import parse_cron

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
LONDON = ZoneInfo("Europe/London")


async def test_a_series_has_its_rule_in_words_and_its_next_runs_on_both_clocks(
    store: MemoryStore, rail: Rail
) -> None:
    series_id = await rail.schedule_recurring("digest", {}, cron="0 9 * * *", tz="Europe/London")
    (summary,) = (await list_series(store, "default", NOW)).items
    assert (summary.id, summary.job_id) == (series_id, series_id)
    assert summary.description == "At 09:00 every day"
    assert summary.next_at == datetime(2026, 5, 2, 8, tzinfo=UTC)
    assert [it.local.hour for it in summary.occurrences] == [9, 9, 9]
    assert summary.occurrences[0].at == summary.next_at
    assert summary.last_run is None


async def test_a_list_of_rare_rules_does_not_block_the_event_loop_and_is_computed_once(
    store: MemoryStore, rail: Rail
) -> None:
    for seconds in (7919, 7927, 7933, 7937, 7949):
        rule = f"FREQ=SECONDLY;INTERVAL={seconds};BYHOUR=3;BYMINUTE=7;BYSECOND=11"
        await rail.schedule_recurring("rare", {}, rrule=rule, tz="America/New_York")
    page, turns = await count_turns(list_series(store, "default", NOW))
    assert [len(it.occurrences) for it in page.items] == [3] * 5
    assert turns > 10
    costs = []
    for _ in range(5):
        begun = process_time()
        await list_series(store, "default", NOW)
        costs.append(process_time() - begun)
    assert min(costs) < 0.02


async def test_its_last_runs_are_found_by_any_job_of_it(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    series_id = await rail.schedule_recurring("digest", {}, interval="1h")
    request = LeaseRequest(worker="w", limit=1, lease_for=MINUTE)
    last_id = ""
    for _ in range(3):
        (leased,) = await store.lease(request, clock.now())
        last_id = leased.id
        await store.apply([decide_complete(leased, clock.now())], clock.now())
        await clock.advance(HOUR)
    for asked in (series_id, last_id):
        detail = await find_series(store, "default", asked, NOW)
        assert detail.series.id == series_id
        assert [run.occurrence_at for run in detail.runs] == [
            NOW + 2 * HOUR,
            NOW + HOUR,
            NOW,
        ]
    assert detail.series.last_run is not None
    assert detail.series.last_run.job_id == last_id


async def test_a_paused_series_has_no_next_run_and_an_ended_one_is_not_there(
    store: MemoryStore, rail: Rail
) -> None:
    series_id = await rail.schedule_recurring("digest", {}, interval="1h")
    await rail.pause(series_id)
    (summary,) = (await list_series(store, "default", NOW)).items
    assert (summary.is_paused, summary.next_at) == (True, None)
    await rail.cancel(series_id)
    assert (await list_series(store, "default", NOW)).items == ()
    with pytest.raises(JobNotFoundError):
        await find_series(store, "default", series_id, NOW)


async def test_an_ended_series_is_found_as_long_as_a_job_of_it_is_kept(
    store: MemoryStore, rail: Rail
) -> None:
    ended = await rail.schedule_recurring("digest", {}, interval="1h")
    live = await rail.schedule_recurring("report", {}, interval="1h")
    assert await list_ended_series(store, "default") == ()
    await rail.cancel(ended)
    (summary,) = await list_ended_series(store, "default")
    assert (summary.id, summary.next_at, summary.ended_at) == (ended, None, NOW)
    detail = await find_any_series(store, "default", ended, NOW)
    assert (detail.series, detail.runs[0].ending) == (summary, Ending.CANCELLED)
    assert (await find_any_series(store, "default", live, NOW)).series.ended_at is None
    assert await list_ended_series(store, "other") == ()
    await store.delete("default", ended)
    with pytest.raises(JobNotFoundError):
        await find_any_series(store, "default", ended, NOW)


async def test_series_come_in_pages_and_only_to_their_tenant(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    for _ in range(5):
        await rail.schedule_recurring("digest", {}, interval="1h")
        await clock.advance(MINUTE)
    first = await list_series(store, "default", NOW, limit=3)
    second = await list_series(store, "default", NOW, limit=3, cursor=first.next_cursor)
    assert (len(first.items), len(second.items), second.has_more) == (3, 2, False)
    assert len({it.id for it in (*first.items, *second.items)}) == 5
    assert (await list_series(store, "other", NOW)).items == ()
    with pytest.raises(InvalidCursorError):
        await list_series(store, "default", NOW, cursor="nonsense")


async def test_series_are_found_by_a_part_of_their_names(store: MemoryStore, rail: Rail) -> None:
    for number in range(3):
        await rail.schedule_recurring(f"nightly.report-{number}", {}, interval="1h")
        await rail.schedule_recurring(f"digest-{number}", {}, interval="1h")
    first = await list_series(store, "default", NOW, limit=2, match="REPORT")
    rest = await list_series(
        store, "default", NOW, cursor=first.next_cursor, limit=2, match="REPORT"
    )
    assert [len(first.items), len(rest.items), rest.has_more] == [2, 1, False]
    names = {it.name for it in (*first.items, *rest.items)}
    assert names == {f"nightly.report-{number}" for number in range(3)}
    assert not (await list_series(store, "default", NOW, match="weekly")).items


async def test_the_overview_counts_what_there_is(store: MemoryStore, clock: VirtualClock) -> None:
    once = RetryPolicy(max_attempts=1)
    parent = a_job(queue="mail", due_at=NOW - HOUR, retry_policy=once, created_at=NOW - HOUR)
    blocked = a_job(queue="mail", dependencies=[parent.id])
    waited_for = a_job(queue="mail", due_at=NOW + HOUR)
    await store.insert([parent, blocked, waited_for], NOW)
    (leased,) = await store.lease(LeaseRequest(worker="w", limit=1, lease_for=MINUTE), NOW)
    await store.apply([decide_fail(leased, "KeyError", NOW)], NOW)
    pending = a_job(queue="mail", dependencies=[waited_for.id])
    late, done = a_job(queue="mail", due_at=NOW - HOUR), a_job(queue="done", due_at=NOW - HOUR)
    await store.insert([pending, late, done, a_job(tenant="other", queue="mail")], NOW)
    request = LeaseRequest(worker="w", limit=1, lease_for=MINUTE, queues=["done"])
    (leased,) = await store.lease(request, NOW)
    await store.apply([decide_complete(leased, NOW)], NOW)
    found = await take_overview(store, clock, "default")
    assert found.counts == {
        "PENDING": 1,
        "READY": 2,
        "RUNNING": 0,
        "COMPLETED": 1,
        "FAILED": 1,
        "BLOCKED": 1,
    }
    (mail,) = found.queues
    assert (mail.queue, mail.due_count, mail.later_count, mail.dead_count) == ("mail", 1, 1, 1)
    assert (mail.oldest_due_at, mail.late_seconds) == (NOW - HOUR, 3600.0)
    assert [alarm.concern for alarm in found.alarms] == ["late", "no_worker", "dead_letters"]
    assert [alarm.text for alarm in found.alarms] == [
        "1 job is late: it has been due for 1 hour",
        "1 job is due, and no worker takes from the queue",
        "1 dead letter: the job failed its last attempt",
    ]
    assert found.is_red
    assert [(it.job_id, it.error) for it in found.failures] == [(parent.id, "KeyError")]
    listed = await list_queues(store, clock, "default")
    assert [(it.queue, it.due_count, it.late_seconds, it.worker_count) for it in listed] == [
        (it.queue, it.due_count, it.late_seconds, it.worker_count) for it in found.queues
    ]


async def test_a_due_job_that_no_worker_can_run_is_an_alarm_at_once(
    store: MemoryStore, clock: VirtualClock
) -> None:
    presence = WorkerPresence(
        id="w", host="h", pid=1, queues=("mail",), tenants=None, kinds=("mail.send",),
        concurrency=1, version="1", started_at=NOW, seen_at=NOW,
    )  # fmt: skip
    await store.write_all([DocumentWrite(WORKERS, "w", None, msgspec.json.encode(presence))])
    kinds = ("fax.send", "fax.send", "mail.send")
    await store.insert([a_job(queue="mail", kind=kind, due_at=NOW) for kind in kinds], NOW)
    await store.insert([a_job(queue="other", kind="fax.send", due_at=NOW)], NOW)
    found = await take_overview(store, clock, "default")
    assert [(it.concern, it.queue, it.count) for it in found.alarms] == [
        ("no_worker", "other", 1),
        ("unserved", "mail", 2),
    ]
    assert found.alarms[1].text == (
        "no worker that takes its queue has a handler for the kind fax.send: "
        "the job waits until one has"
    )


async def test_alarms_of_many_jobs_are_sentences(store: MemoryStore, clock: VirtualClock) -> None:
    once = RetryPolicy(max_attempts=1)
    await store.insert([a_job(due_at=NOW - HOUR, retry_policy=once) for _ in range(4)], NOW)
    request = LeaseRequest(worker="w", limit=2, lease_for=MINUTE)
    dead = await store.lease(request, NOW)
    await store.apply([decide_fail(job, "no", NOW) for job in dead], NOW)
    found = await take_overview(store, clock, "default")
    assert [alarm.text for alarm in found.alarms] == [
        "jobs are late: the oldest has been due for 1 hour",
        "2 jobs are due, and no worker takes from the queue",
        "2 dead letters: the jobs failed their last attempt",
    ]


async def test_counts_are_those_of_counting_every_status(
    store: MemoryStore, clock: VirtualClock
) -> None:
    jobs = [a_job(due_at=NOW + HOUR * (number - 5)) for number in range(10)]
    await store.insert(jobs, NOW)
    await store.lease(LeaseRequest(worker="w", limit=2, lease_for=MINUTE), NOW)
    found = (await store.find("default", limit=100)).items
    counted = await count_jobs(store, "default", await store.survey(clock.now(), "default"))
    assert counted == {
        str(status): sum(job.status is status for job in found) for status in JobStatus
    }


async def test_the_next_runs_come_from_series_and_from_tasks(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    await rail.schedule_recurring("digest", {}, cron="30 13 * * *", tz="Europe/London")
    await seed_tasks(
        store, [{"name": "clean-up", "cronExpression": "0 * * * *", "retryDelayMs": 0}]
    )
    found = await take_overview(store, clock, "default", zone=LONDON)
    assert [(it.source, it.name, it.at) for it in found.next_runs] == [
        ("series", "digest", NOW + 30 * MINUTE),
        ("task", "clean-up", NOW + HOUR),
    ]
    assert found.next_runs[0].local.hour == 13
    assert not found.is_red
    alone = await take_overview(store, clock, "default")
    assert [it.source for it in alone.next_runs] == ["series"]


async def test_tasks_say_when_they_run_in_words_and_instants(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await seed_tasks(
        store, [{"name": "report", "cronExpression": "0 9 * * 1-5", "retryDelayMs": 60_000}]
    )
    (task,) = await list_tasks(store, clock, LONDON)
    assert (task.name, task.phase, task.retry_delay_ms) == ("report", "AwaitingRun", 60_000)
    assert "09:00" in task.description
    assert task.occurrences[0] == datetime(2026, 5, 4, 8, tzinfo=UTC)


async def test_a_plan_of_tasks_says_what_would_change(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await seed_tasks(store, [{"name": "old", "cronExpression": "0 * * * *", "retryDelayMs": 0}])
    plan = await plan_tasks(store, clock, LONDON, [("new", "0 9 * * *", MINUTE)])
    assert {task.name: task.standing for task in plan.tasks} == {"new": "new", "old": "removed"}
    assert plan.has_changes


@pytest.mark.parametrize("expression", ["*/10 9-17 * * mon-fri", "@daily", "30 0 9 * * *"])
async def test_a_task_in_the_extended_dialect_is_shown_as_it_runs(
    store: MemoryStore, clock: VirtualClock, expression: str
) -> None:
    ran: list[datetime] = []
    policy = SchedulerPolicy(dialect="extended")
    scheduler = Scheduler(store, clock=clock, zone=LONDON, policy=policy)
    await scheduler.initialize([("t", expression, lambda: ran.append(clock.now()), MINUTE)])
    await clock.advance(MINUTE)
    (task,) = await list_tasks(store, clock, LONDON)
    assert task.description == parse_cron(expression, "extended").describe()
    shown = preview_task(expression, LONDON, clock.now())
    assert (shown.problem, shown.description) == ("", task.description)
    found = await explain_one_task(store, clock, LONDON, "t")
    assert (found.answer, found.next_at) == ("will run", task.occurrences[0])
    at_it = await explain_one_task(store, clock, LONDON, "t", task.occurrences[1])
    assert at_it.answer == "will run"
    await clock.advance(task.occurrences[0] - clock.now())
    assert ran[-1] == task.occurrences[0]
    await scheduler.stop()


async def test_the_page_of_a_paused_series_shows_no_past_instants(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    series_id = await rail.schedule_recurring("digest", {}, cron="0 9 * * *", tz="UTC")
    await rail.pause(series_id)
    await clock.advance(timedelta(days=10))
    shown = (await find_series(store, "default", series_id, clock.now())).series.occurrences
    assert [it.at for it in shown[:2]] == [
        NOW + timedelta(days=10, hours=21),
        *[NOW + timedelta(days=11, hours=21)],
    ]


async def test_a_series_at_the_end_of_the_calendar_is_refused(rail: Rail) -> None:
    with pytest.raises(InvalidJobError, match="start_from must be before 9999-12-30"):
        await rail.schedule_recurring(
            "digest", {}, interval="1m", start_from="9999-12-31T23:58:00Z", tz="Asia/Tokyo"
        )


async def test_a_series_at_the_end_of_the_calendar_breaks_no_list(
    store: MemoryStore, rail: Rail, clock: VirtualClock
) -> None:
    end = datetime(9999, 12, 31, 23, 58, tzinfo=UTC)
    rule = Recurrence(interval="1m", start=end, zone="Asia/Tokyo")
    await store.insert([a_job(due_at=end, occurrence_at=end, recurrence=rule)], NOW)
    await rail.schedule_recurring("digest", {}, interval="1h")
    assert len((await list_series(store, "default", NOW)).items) == 2
    assert (await take_overview(store, clock, "default")).counts["READY"] == 2
