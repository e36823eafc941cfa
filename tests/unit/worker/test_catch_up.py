"""Workers that were down: what each catch-up choice runs afterwards."""

from datetime import UTC, datetime, timedelta

from tests.unit.worker.workshop import MINUTE, NOW, Workshop

from rota.events import JobSettled
from rota.jobs import CatchUp, JobFilter, JobRequest, Recurrence, admit_job, make_job_id
from rota.ops.explain import explain_job
from rota.ops.explain_at import explain_job_at
from rota.worker import Context

HOUR = timedelta(hours=1)


async def begin(shop: Workshop, rule: Recurrence) -> str:
    request = JobRequest(name="work", queue="q", recurrence=rule)
    job = admit_job(request, job_id=make_job_id(NOW, 1), now=NOW)
    await shop.store.insert([job], NOW)
    return job.id


async def run_after_outage(shop: Workshop, catch_up: CatchUp, cron: str) -> list[tuple[str, str]]:
    """What runs when a worker comes up 3 h 30 min late and works for an hour."""
    ran: list[tuple[str, str]] = []

    async def work(context: Context) -> None:
        ran.append((f"{context.scheduled_for:%H:%M}", f"{shop.clock.now():%H:%M}"))

    await begin(shop, Recurrence(cron=cron, start=NOW + MINUTE, catch_up=catch_up))
    await shop.pass_time(3.5 * HOUR)
    shop.make_worker({"work": work})
    shop.start()
    await shop.pass_time(HOUR)
    await shop.finish()
    return ran


async def test_once_covers_an_outage_with_one_run(shop: Workshop) -> None:
    ran = await run_after_outage(shop, "once", "0 * * * *")
    assert ran == [("13:00", "15:30"), ("16:00", "16:00")]


async def test_all_runs_every_occurrence_of_an_outage(shop: Workshop) -> None:
    ran = await run_after_outage(shop, "all", "0 * * * *")
    assert ran == [
        ("13:00", "15:30"),
        ("14:00", "15:30"),
        ("15:00", "15:30"),
        ("16:00", "16:00"),
    ]


async def test_skip_runs_none_of_an_outage(shop: Workshop) -> None:
    ran = await run_after_outage(shop, "skip", "0 * * * *")
    assert ran == [("16:00", "16:00")]
    assert [it.outcome for it in shop.told(JobSettled)] == ["skipped", "succeeded"]


async def test_why_explains_a_skipped_occurrence(shop: Workshop) -> None:
    await run_after_outage(shop, "skip", "0 * * * *")
    first_id = make_job_id(NOW, 1)
    store, clock = shop.hooked, shop.clock
    told = await explain_job(store, clock, "default", first_id)
    assert told.answer == "did not run"
    assert told.sentence == "It did not run: it could not start in time, and was skipped."
    assert told.reasons[0].text.endswith("a worker came 2 hours 30 minutes later.")
    for hour, answer in ((13, "did not run"), (14, "did not run"), (16, "ran")):
        at = datetime(2026, 5, 1, hour, tzinfo=UTC)
        assert (await explain_job_at(store, clock, "default", first_id, at)).answer == answer


async def test_a_jittered_series_starts_late_by_the_same_amount_after_a_failure(
    shop: Workshop,
) -> None:
    starts: list[datetime] = []

    async def work(context: Context) -> None:
        starts.append(shop.clock.now())
        if len(starts) == 1:
            raise ValueError(context.job.id)

    await begin(shop, Recurrence(cron="0 * * * *", start=NOW + MINUTE, jitter="10m"))
    shop.make_worker({"work": work})
    shop.start()
    await shop.pass_time(2.5 * HOUR)
    await shop.finish()
    found = (await shop.store.find("default", JobFilter(is_recurring=True))).items
    due = sorted(job.occurrence_at for job in found if job.occurrence_at is not None)
    assert [f"{at:%H:%M}" for at in due] == ["13:00", "14:00", "15:00"]
    assert timedelta(0) < starts[0] - due[0] <= 10 * MINUTE
    assert timedelta(0) < starts[-1] - due[1] <= 10 * MINUTE
    assert starts[-1] - due[1] != starts[0] - due[0]
