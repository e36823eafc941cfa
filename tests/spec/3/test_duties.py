"""What specification 3 asks of the whole rail: one worker is enough, and it does not gossip."""

import asyncio
import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from tests.architecture.source_tree import ROOT

from rota import Rail, open_store
from rota.events import Event
from rota.telemetry.logs import JsonFormatter
from rota.testing import VirtualClock
from rota.worker import Context, Worker, WorkerSettings

NOW = datetime(2027, 3, 1, 9, tzinfo=UTC)
PERSONAL = "dear Ada, your results are in"
WAKES_WITHIN = timedelta(seconds=5)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Everything that Rota logs, down to the last detail."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("rota")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(before)


async def test_one_worker_with_its_defaults_starts_every_job_within_seconds() -> None:
    """Jobs of many tenants, of one moment and of random ones; no tenant's rate is limited."""
    clock, random = VirtualClock(NOW), Random(5)
    store = await open_store("memory://")
    started: dict[str, datetime] = {}

    async def note(context: Context) -> None:
        started[context.job.id] = clock.now()

    due: dict[str, datetime] = {}
    for number in range(300):
        offset = timedelta(minutes=10) if number % 3 else timedelta(seconds=1200 * random.random())
        rail = Rail(store, f"guild-{number % 7}", clock=clock)
        due[await rail.schedule_once("send", {}, run_at=NOW + offset)] = NOW + offset
    worker = Worker(store, {"send": note}, clock=clock)
    working = asyncio.create_task(worker.run())
    await clock.advance(timedelta(minutes=21))
    worker.stop()
    await clock.run(working)
    assert started.keys() == due.keys()
    assert all(due[each] <= at <= due[each] + WAKES_WITHIN for each, at in started.items())


async def test_only_the_handler_sees_the_payload(
    lines: io.StringIO,
) -> None:
    """Events, logs and error messages show only identifiers."""
    clock = VirtualClock(NOW)
    store = await open_store("memory://")
    events: list[Event] = []
    seen: list[object] = []

    async def fail(context: Context) -> None:
        seen.append(context.payload["text"])
        raise ConnectionError("the mail server is away")

    rail = Rail(store, "guild-7", clock=clock)
    await rail.set_quiet_hours(start="09:00", end="09:30", tz="UTC")
    job_id = await rail.schedule_once("send", {"text": PERSONAL}, run_at=NOW)
    worker = Worker(
        store,
        {"send": fail},
        notifies={"send"},
        clock=clock,
        settings=WorkerSettings(poll_for=timedelta(minutes=1)),
    )
    worker.events.subscribe(events.append)
    working = asyncio.create_task(worker.run())
    await clock.advance(timedelta(hours=3))
    worker.stop()
    await clock.run(working)
    assert (await rail.get(job_id)).state == "dlq"
    assert seen == [PERSONAL] * 5
    assert len(events) > 10
    assert job_id in lines.getvalue()
    assert PERSONAL not in lines.getvalue()
    assert not any(PERSONAL in event.describe() or PERSONAL in repr(event) for event in events)


def test_ci_runs_every_test_with_a_browser() -> None:
    """Also on a machine that has no browser yet: the target installs one."""
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").endswith("make test\n")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    test, suite = (
        makefile.partition(f"\n{name}: ")[2].partition("\n\n")[0] for name in ("test", "suite")
    )
    assert test.endswith(" suite")
    assert suite.startswith("browser ")
    assert " --durations=40 tests ||" in suite
