"""The same jobs, schedules and faults in every deployment on every store, seen from outside.

``pytest tests/process/matrix`` prints the matrix as a table.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.process.fleet import wait_for
from tests.process.matrix.deployments import DEPLOYMENTS, Deployment, deployed
from tests.process.service.up_process import PATIENCE_SECONDS
from tests.unit.cli.conftest import RunRota, rota

from rota import open_store
from rota.auth.caller import EVERY_SCOPE
from rota.auth.tokens import TokenBook
from rota.clock.system import SystemClock
from rota.gates import Maintenance, QuietHours, Scope
from rota.rail.settings import set_maintenance, set_quiet_hours

pytestmark = pytest.mark.process

__all__ = ["rota"]

STORES = ("sqlite", "postgres", "mysql", "redis", "mongo")
HOUR = timedelta(hours=1)
ENDED = ("COMPLETED", "FAILED")
PROMISED = {"guildId", "jobId", "type", "state", "attempts", "errCode", "durationMs"}


class Place(NamedTuple):
    """An empty store with closed gates, and a token for it."""

    sort: str
    folder: Path
    store: str
    token: str


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    store = f"sqlite:///{tmp_path / 'rota.db'}"
    if request.param != "sqlite":
        store = str(request.getfixturevalue(f"{request.param}_url"))
    token = asyncio.run(prepare(store))
    monkeypatch.setenv("ROTA_TOKEN", token)
    return Place(request.param, tmp_path, store, token)


async def prepare(url: str) -> str:
    """Close the gates before anything runs. Returns a token."""
    now = SystemClock().now().replace(microsecond=0)
    async with await open_store(url) as store:
        quiet = QuietHours((now - HOUR).time(), (now + HOUR).time(), UTC)
        await set_quiet_hours(store, "default", quiet)
        window = Maintenance(until=now + HOUR, reason="moving house")
        await set_maintenance(store, Scope(queue="closed"), window)
        book = TokenBook(store, SystemClock())
        return (await book.issue("default", EVERY_SCOPE, "matrix")).secret.reveal()


class Cell:
    """One deployment on one store: its jobs, and what was seen of them."""

    def __init__(self, running: Deployment, folder: Path) -> None:
        self.running = running
        self.release = folder / "released"
        self.jobs: dict[str, list[str]] = {}

    def create(self, kind: str, payload: Any = None, **more: Any) -> str:
        body = {"name": kind, "kind": kind, "queue": "default", "payload": payload or {}, **more}
        job_id = str(self.running.post("/jobs", body)["id"])
        self.jobs.setdefault(kind, []).append(job_id)
        return job_id

    def read(self, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = self.running.get(f"/jobs/{self.jobs[kind][0]}")
        return found

    def lose_a_worker(self) -> None:
        """A worker takes a job and is never heard of again."""
        self.create("matrix.lost", queue="ghosts")
        asked = {"worker": "ghost", "queues": ["ghosts"], "lease_seconds": 1}
        assert len(self.running.post("/leases", asked)["items"]) == 1

    def is_done(self) -> bool:
        """Whether each job has ended or is held back."""
        found = {it["id"]: it for it in self.running.get("/jobs?limit=100")["items"]}
        ours = [found[it] for ids in self.jobs.values() for it in ids]
        return all(it["status"] in ENDED or it["deferral"] is not None for it in ours)


def run_the_jobs(cell: Cell) -> None:
    """A dozen jobs: five that succeed, two that fail, one long, three held back, one lost; ticks.

    Quiet hours hold back a job of a kind that notifies people, and one that says so itself.
    """
    cell.lose_a_worker()
    cell.create("matrix.hold", {"released_by": str(cell.release)})
    for number in range(5):
        cell.create("matrix.add", {"x": number, "y": 1})
    for key in ("no such key", "nor this"):
        cell.create("matrix.fail", {"key": key})
    cell.create("matrix.notify")
    cell.create("matrix.say", notifies=True)
    cell.create("matrix.closed", queue="closed")
    see_lease(cell)
    cell.release.touch()
    wait_for(cell.is_done, "the end of all jobs")


def see_lease(cell: Cell) -> None:
    """The long job is leased for as long as ``WORKER_LEASE_MS`` says, and again before that ends.

    It runs until it is released, however long the machine stands still in between.
    """

    def read() -> Any:
        return cell.read("matrix.hold")["lease"]

    wait_for(lambda: read() is not None, "a lease")
    lease = read()
    held_for = instant(lease["until"]) - instant(lease["taken_at"])
    assert held_for < timedelta(seconds=30), "the default would be a minute"
    wait_for(lambda: instant(read()["until"]) > instant(lease["until"]), "an extended lease")

    def is_busy() -> bool:
        present = cell.running.get("/workers")["items"]
        return lease["worker"] in [it["id"] for it in present if it["busy_count"]]

    wait_for(is_busy, "a worker that is busy")


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def read_samples(text: str) -> dict[str, float]:
    """The sums over all labels, by the names of the samples."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


def see_workers(cell: Cell) -> str:
    def is_present() -> bool:
        listed = len(cell.running.get("/workers")["items"])
        return listed >= 1 and read_samples(cell.running.scrape())["rota_workers"] >= 1

    wait_for(is_present, "a worker that is present")
    return f"{len(cell.running.get('/workers')['items'])}"


EXPECTED = {
    "rota_jobs_picked_total": 12,
    "rota_jobs_succeeded_total": 6,
    "rota_jobs_failed_total": 2,
    "rota_jobs_deferred_total": 3,
    "rota_jobs_dlq_total": 3,
    "rota_jobs_stalled_total": 1,
    "rota_handler_duration_seconds_count": 8,
    "rota_lease_wait_seconds_count": 8,
}
"""At least; ticks come on top, and a held-back job may be asked again."""


def see_counters(cell: Cell) -> str:
    def lacking() -> list[str]:
        found = read_samples(cell.running.scrape())
        return [name for name, count in EXPECTED.items() if found.get(name, 0) < count]

    try:
        wait_for(lambda: not lacking(), "the totals")
    except AssertionError:
        pytest.fail(f"too few of {lacking()}: {read_samples(cell.running.scrape())}")
    found = read_samples(cell.running.scrape())
    assert found["rota_jobs_failed_total"] == 2
    assert found["rota_jobs_dlq_total"] == 3
    assert found["rota_jobs_stalled_total"] == 1
    asked = cell.running.get("/counters")
    counters = asked["counters"]
    assert counters["jobs.failed"] == 2
    assert counters["jobs.picked"] >= EXPECTED["rota_jobs_picked_total"]
    assert asked["timings"]["handler.duration_ms"]["longest_ms"] >= 1000
    assert asked["timings"]["lease.wait_ms"]["count"] >= 8
    return " ".join(str(counters[f"jobs.{it}"]) for it in NAMES)


NAMES = ("picked", "succeeded", "failed", "deferred", "dlq", "stalled")


def see_own_metrics(cell: Cell) -> str:
    """The process that runs the jobs has its own endpoint, and counts soon after a job ends."""

    def has_counted() -> bool:
        found = read_samples(cell.running.scrape_worker())
        return found["rota_jobs_succeeded_total"] >= 6 and found["rota_workers"] >= 1

    wait_for(has_counted, "the own metrics")
    return "yes"


def see_log(cell: Cell) -> str:
    """Every way in which an attempt ends has its line, with the promised fields."""

    def read() -> dict[tuple[Any, str], dict[str, Any]]:
        return {(it.get("event"), it["jobId"]): it for it in cell.running.log() if "jobId" in it}

    wanted = {
        "matrix.add": ("JobSettled", "done", None),
        "matrix.fail": ("JobFailed", "dlq", "KeyError"),
        "matrix.hold": ("JobSettled", "done", None),
        "matrix.notify": ("JobDeferred", "queued", None),
        "matrix.say": ("JobDeferred", "queued", None),
        "matrix.closed": ("JobDeferred", "queued", None),
        "matrix.lost": ("JobStalled", "dlq", None),
    }
    keys = {(event, cell.jobs[kind][0]) for kind, (event, _, _) in wanted.items()}
    wait_for(lambda: keys <= read().keys(), "the lines of the jobs")
    lines = read()
    for kind, (event, state, code) in wanted.items():
        line = lines[event, cell.jobs[kind][0]]
        assert line.keys() >= PROMISED, line
        assert (line["type"], line["state"], line["errCode"]) == (kind, state, code)
        assert (line["guildId"], line["attempts"]) == ("default", 1)
    assert lines["JobSettled", cell.jobs["matrix.hold"][0]]["durationMs"] >= 1000
    traceback = lines["JobFailed", cell.jobs["matrix.fail"][0]]["traceback"]
    assert "Traceback (most recent call last)" in traceback
    assert "KeyError: 'no such key'" in traceback
    return "all lines"


def see_gates(cell: Cell) -> str:
    wanted = {
        "matrix.notify": "quiet hours",
        "matrix.say": "quiet hours",
        "matrix.closed": "moving house",
    }
    for kind, reason in wanted.items():
        job = cell.read(kind)
        assert (job["status"], job["attempt_count"]) == ("READY", 0)
        assert reason in str(job["deferral"])
    return "3 held back"


def see_settings(cell: Cell) -> str:
    def read() -> Any:
        present = cell.running.get("/workers")["items"]
        (worker,) = [it for it in present if it["id"] != "ghost"]
        return worker

    wait_for(lambda: (read()["busy_count"], read()["ahead_count"]) == (0, 0), "an idle worker")
    worker = read()
    found = [worker[it] for it in ("poll_ms", "batch", "lease_ms")]
    is_over_http = worker["host"] == "http"  # its requests say how many; the server says the rest
    assert found == [200, 1 if is_over_http else 5, 5_000]
    assert "matrix.add" in worker["kinds"]
    assert worker["concurrency"] >= 1
    failed = cell.read("matrix.fail")
    assert failed["retry_policy"]["max_attempts"] == 1, "WORKER_MAX_ATTEMPTS"
    assert (failed["status"], failed["ending"]) == ("FAILED", "exhausted")
    return "honoured"


def see_tasks(cell: Cell) -> str:
    """Declarative tasks: one that succeeds, and one that fails and is reported."""

    def have_run() -> bool:
        states = {it["name"]: it for it in cell.running.get("/tasks")["items"]}
        beat, broken = states["matrix.beat"], states["matrix.broken"]
        is_noted = None not in (beat["last_success_at"], broken["last_failure_at"])
        return is_noted and broken["retry_count"] >= 1

    wait_for(have_run, "a run of each task")

    def list_events() -> set[tuple[str, str]]:
        lines = [it for it in cell.running.log() if "event" in it]
        names = (it.get("taskName") or it.get("alertName") for it in lines)
        return {(it["event"], str(name)) for it, name in zip(lines, names, strict=True)}

    wanted = {("TaskRunCompleted", "matrix.beat"), ("TaskRunFailed", "matrix.broken")}
    wanted.add(("AlertRaised", "matrix.broken"))
    wait_for(lambda: wanted <= list_events(), "the lines of the tasks")
    return "run fail alert"


def see_attempts(cell: Cell, rota: RunRota) -> str:
    """Start, end, worker and duration of a success and of a failure: REST, why, CLI, page."""
    for kind, outcome in (("matrix.hold", "succeeded"), ("matrix.fail", "failed")):
        job_id = cell.jobs[kind][0]
        (attempt,) = cell.running.get(f"/jobs/{job_id}/attempts")["items"]
        took = instant(attempt["ended_at"]) - instant(attempt["started_at"])
        assert attempt["outcome"] == outcome
        assert kind != "matrix.hold" or took >= timedelta(seconds=1)
        reasons = cell.running.get(f"/jobs/{job_id}/why")["reasons"]
        (shown,) = [it for it in reasons if it["code"] == "attempt"]
        assert (shown["at"], shown["until"]) == (attempt["started_at"], attempt["ended_at"])
        assert shown["who"] == attempt["worker"]
        place = ("--url", cell.running.url)
        assert attempt["worker"] in rota("why", job_id, *place).out
        listed = rota("jobs", "show", job_id, *place, width=200).out
        assert attempt["worker"] in listed
        assert f"{outcome}" in listed
        page = show_page(cell.running, f"/admin/jobs/{job_id}")
        assert f"Attempt 1 {outcome}" in page
        assert attempt["worker"] in page
    return "REST why CLI page"


def show_page(running: Deployment, path: str) -> str:
    origin = running.url.removesuffix("/rota")
    with httpx2.Client(base_url=running.url, timeout=PATIENCE_SECONDS) as browser:
        entered = browser.post(
            "/admin/sign-in", data={"token": running.token}, headers={"origin": origin}
        )
        cookie = entered.headers["set-cookie"].partition(";")[0]
        page = browser.get(path, headers={"cookie": cookie})
        assert page.status_code == 200, page.text
        return page.text


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_everything_is_seen_in_every_deployment(
    deployment: str, place: Place, rota: RunRota, record_property: Callable[[str, object], None]
) -> None:
    seen = {"deployment": deployment, "store": place.sort}
    with deployed(deployment, place.folder, place.store, place.token) as running:
        cell = Cell(running, place.folder)
        seen["workers"] = see_workers(cell)
        run_the_jobs(cell)
        seen["own metrics"] = see_own_metrics(cell)
        seen["gates"] = see_gates(cell)
        seen["WORKER_*"] = see_settings(cell)
        seen["attempts"] = see_attempts(cell, rota)
        seen["tasks"] = see_tasks(cell)
        running.stop_worker()
        seen["/".join(NAMES)] = see_counters(cell)
        seen["JSON log"] = see_log(cell)
    record_property("matrix", seen)
