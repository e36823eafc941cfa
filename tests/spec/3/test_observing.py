"""Specification 3's counters, timings, logs, alerts and environment, on workers at work."""

import json
import logging
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from io import StringIO

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.worker.workshop import MINUTE, NOW, SECOND, Workshop, succeed

from rota import open_store
from rota.jobs import RAIL_RETRIES, Job, RetryPolicy
from rota.policy.gates import OPEN, Closed, Verdict
from rota.rail import Rail, RailSettings
from rota.runtime.configuration import read_configuration
from rota.stores.inspection import StoreInspection
from rota.stores.protocol import LeaseRequest
from rota.telemetry.counters import Counters
from rota.telemetry.health import list_findings, read_store_status
from rota.telemetry.logs import JsonFormatter
from rota.telemetry.metrics import Metrics
from rota.worker import Context, WorkerSettings

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture
async def shop(store_url: str) -> AsyncIterator[Workshop]:
    """A workshop on every store."""
    async with await open_store(store_url) as store:
        made = Workshop(store)
        yield made
        await made.close()


class Night:
    """A gate that is closed to one kind."""

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:  # noqa: ARG002 - as gates are asked
        return Closed(NOW + timedelta(hours=8), "quiet hours") if job.kind == "send" else OPEN


async def fail(_: Context) -> None:
    raise ValueError("no")


async def have_everything_happen(shop: Workshop) -> None:
    """One job succeeds, one fails and is retried, one dies, one is deferred, one stalls."""
    await shop.add("work", retry_policy=RAIL_RETRIES)
    request = LeaseRequest(worker="the dead", limit=1, lease_for=MINUTE)
    await shop.store.lease(request, shop.clock.now())
    await shop.pass_time(MINUTE + SECOND)
    shop.start()
    await shop.pass_time(20 * SECOND)
    await shop.add("work")
    await shop.add("fail", retry_policy=RAIL_RETRIES)
    await shop.add("fail", retry_policy=ONCE)
    await shop.add("send")
    await shop.pass_time(3 * SECOND)


def make_worker(shop: Workshop) -> None:
    shop.make_worker(
        {"work": succeed, "fail": fail, "send": succeed},
        WorkerSettings(gate=Night()),
    )


async def test_the_counters_count_what_happened(shop: Workshop) -> None:
    make_worker(shop)
    counters = Counters()
    counters.follow(shop.worker.events)
    await have_everything_happen(shop)
    assert counters.counts() == {
        "jobs.picked": 4,
        "jobs.succeeded": 1,
        "jobs.failed": 2,
        "jobs.deferred": 1,
        "jobs.dlq": 1,
        "jobs.stalled": 1,
    }


async def test_prometheus_counts_the_same_as_the_counters(shop: Workshop) -> None:
    make_worker(shop)
    counters, registry = Counters(), CollectorRegistry()
    counters.follow(shop.worker.events)
    Metrics(registry).follow(shop.worker.events)
    await have_everything_happen(shop)
    totals: dict[str, float] = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name.startswith("rota_jobs_") and sample.name.endswith("_total"):
                name = sample.name.removeprefix("rota_jobs_").removesuffix("_total")
                totals[f"jobs.{name}"] = totals.get(f"jobs.{name}", 0) + sample.value
    assert totals == counters.counts()


async def test_timings_are_of_the_handler_and_from_due_to_claim(shop: Workshop) -> None:
    async def take_two_seconds(_: Context) -> None:
        await shop.clock.sleep(2 * SECOND)

    shop.make_worker({"work": take_two_seconds})
    counters = Counters()
    counters.follow(shop.worker.events)
    await shop.add("work", due_at=NOW)
    await shop.pass_time(5 * SECOND)
    await shop.clock.run(shop.worker.run_once())
    duration, wait = (counters.timing(it) for it in ("handler.duration_ms", "lease.wait_ms"))
    assert (duration.count, duration.sum_ms) == (1, 2000.0)
    assert (wait.count, wait.sum_ms) == (1, 5000.0)


async def test_the_log_of_a_worker_is_lines_of_json_in_the_specifications_words(
    shop: Workshop,
) -> None:
    written = StringIO()
    handler, logger = logging.StreamHandler(written), logging.getLogger("rota.worker")
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        make_worker(shop)
        await have_everything_happen(shop)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    about_jobs = {
        (line["event"], line["type"], line["state"], line["attempts"], line["errCode"])
        for line in lines
        if "jobId" in line
    }
    assert about_jobs == {
        ("JobStalled", "work", "queued", 1, None),
        ("JobSettled", "work", "done", 1, None),
        ("JobFailed", "fail", "queued", 1, "ValueError"),
        ("JobFailed", "fail", "dlq", 1, "ValueError"),
        ("JobDeferred", "send", "queued", 1, None),
    }
    assert {line["guildId"] for line in lines if "jobId" in line} == {"default"}
    assert all(line["durationMs"] == 0 for line in lines if line["event"] == "JobFailed")


async def test_stalled_and_late_jobs_raise_an_alert_until_a_worker_has_dealt_with_them(
    shop: Workshop,
) -> None:
    async def concerns() -> list[str]:
        async def inspect() -> StoreInspection:
            return StoreInspection("memory://", "memory")

        standing = await read_store_status(shop.store, inspect, shop.clock.now())
        return [finding.concern for finding in list_findings(standing)]

    await shop.add("work", retry_policy=RAIL_RETRIES)
    await shop.store.lease(LeaseRequest(worker="the dead", limit=1, lease_for=MINUTE), NOW)
    await shop.add("work")
    assert await concerns() == []
    await shop.pass_time(6 * MINUTE)
    assert await concerns() == ["stalled", "late"]
    shop.make_worker({"work": succeed})
    shop.start()
    await shop.pass_time(20 * SECOND)
    assert await concerns() == []


async def test_delays_leases_and_attempts_are_set_by_environment_on_the_same_store(
    shop: Workshop,
) -> None:
    environ = {"WORKER_LEASE_MS": "5000", "WORKER_POLL_MS": "200", "WORKER_MAX_ATTEMPTS": "1"}
    configured = read_configuration(environ)
    leases: list[timedelta] = []

    async def look(context: Context) -> None:
        lease = context.job.lease
        assert lease is not None
        leases.append(lease.until - lease.taken_at)
        raise ValueError("no")

    settings = RailSettings(retry_policy=configured.retry_policy)
    rail = Rail(shop.store, clock=shop.clock, settings=settings)
    job_id = await rail.schedule_once("work", {}, run_at=NOW)
    shop.make_worker({"work": look}, configured.worker)
    await shop.clock.run(shop.worker.run_once())
    assert leases == [5 * SECOND]
    assert (await rail.get(job_id)).state == "dlq"


async def test_every_run_of_a_job_is_on_record(shop: Workshop) -> None:
    """Also the run that succeeded: its worker, start and end, by the clock of the job."""
    outcomes = [ValueError("no"), None]

    async def work(_: Context) -> None:
        await shop.clock.sleep(SECOND)
        error = outcomes.pop(0)
        if error is not None:
            raise error

    shop.make_worker({"work": work})
    job = await shop.add("work")
    shop.start()
    await shop.pass_time(MINUTE)
    first, second = await shop.store.attempts(job.tenant, job.id)
    assert [(each.number, each.outcome) for each in (first, second)] == [
        (1, "failed"),
        (2, "succeeded"),
    ]
    assert [each.lasted_for for each in (first, second)] == [SECOND, SECOND]
    assert first.worker == second.worker
    assert (first.error, second.error) == ("ValueError: no", None)
    assert (first.traceback or "").endswith("ValueError: no\n")
    assert (second.started_at, second.ended_at) >= (first.ended_at + 10 * SECOND, first.ended_at)
    assert second.ended_at == (await shop.look(job)).updated_at


async def test_unobserved_events_are_not_created(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted: list[object] = []
    shop.make_worker({"work": succeed})
    shop.worker.events._listeners.clear()
    logger = logging.getLogger("rota.worker")
    monkeypatch.setattr(logger, "disabled", True)
    monkeypatch.setattr(shop.worker.events, "emit", emitted.append)
    await shop.add_many(20)
    await shop.clock.run(shop.worker.run_once())
    assert emitted == []
