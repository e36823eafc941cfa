"""``rota up``, ``serve`` and ``work`` as far as they get without a signal to end them."""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import NOW, RunRota

from rota.cli.event_lines import describe_event
from rota.events import (
    AlertEnded,
    AlertNotSent,
    AlertRaised,
    Event,
    JobDeferred,
    JobFailed,
    JobSettled,
    JobStalled,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)
from rota.runtime.plan import Reporter, RuntimePlan
from rota.runtime.process import RuntimeEnd
from rota.scheduler.policy import DECLARATIVE, POLLING

JOB: dict[str, Any] = {
    "tenant": "default",
    "job_id": "01",
    "kind": "mail",
    "queue": "default",
    "attempt": 2,
}
TIMES: dict[str, Any] = {"wait_ms": 1.0, "duration_ms": 1500.0}


class Runtime:
    """Stands in for the runtime: keeps the plan, and says something."""

    def __init__(self, end: RuntimeEnd = RuntimeEnd.DRAINED) -> None:
        self.plan: RuntimePlan | None = None
        self._end = end

    async def run(self, plan: RuntimePlan, reporter: Reporter, _clock: object) -> RuntimeEnd:
        self.plan = plan
        reporter.say("it stands")
        logging.getLogger("rota.kinds.log").info("a message")
        logging.getLogger("elsewhere").warning("a warning")
        if reporter.listen is not None:
            reporter.listen(WorkerStopped("w", "finished", 0, 0))
        if reporter.show_token is not None:
            reporter.show_token("rota_secret")
        return self._end


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runtime:
    for name in ("ROTA_STORE", "ROTA_HOST", "ROTA_PORT", "WORKER_BATCH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    made = Runtime()
    monkeypatch.setattr("rota.cli.process.run_runtime", made.run)
    return made


def test_up_plans_everything(rota: RunRota, runtime: Runtime) -> None:
    assert rota("up", "--port", "0", "--concurrency", "3", "--queue", "mail").status == 0
    plan = runtime.plan
    assert plan is not None
    assert plan.binding is not None
    assert plan.work is not None
    assert plan.tasks is not None
    assert (plan.store_url, plan.binding.host, plan.greets) == (
        "sqlite:///rota.db",
        "127.0.0.1",
        True,
    )
    assert sorted(plan.work.built_in) == ["http.request", "log.message"]
    assert (plan.work.settings.concurrency, plan.work.settings.queues) == (3, ["mail"])


def test_serve_plans_no_worker_and_work_no_server(rota: RunRota, runtime: Runtime) -> None:
    rota("serve")
    assert runtime.plan is not None
    assert (runtime.plan.work, runtime.plan.tasks, runtime.plan.greets) == (None, None, False)
    assert runtime.plan.binding is not None
    rota("work", "--queue", "mail", "--queue", "images", "--tenant", "guild-7")
    assert runtime.plan.binding is None
    assert runtime.plan.work is not None
    assert runtime.plan.work.settings.queues == ["mail", "images"]
    assert runtime.plan.work.settings.tenants == ["guild-7"]


def test_work_may_be_limited_to_kinds_and_leave_out_the_built_in_ones(
    rota: RunRota, runtime: Runtime
) -> None:
    assert rota("work", "--kinds", "mail.send,mail.sort", "--no-builtin").status == 0
    assert runtime.plan is not None
    assert runtime.plan.work is not None
    assert (runtime.plan.work.kinds, runtime.plan.work.built_in) == (("mail.send", "mail.sort"), {})


def test_work_offers_version_labels(rota: RunRota, runtime: Runtime) -> None:
    assert rota("work", "--label", "v2", "--label", "v3").status == 0
    assert runtime.plan is not None
    assert runtime.plan.work is not None
    assert runtime.plan.work.settings.labels == ["v2", "v3"]


def test_the_environment_tunes_the_worker_and_names_address_and_store(
    rota: RunRota, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("WORKER_BATCH", "77"),
        ("ROTA_STORE", "memory://"),
        ("ROTA_HOST", "127.0.0.2"),
        ("ROTA_PORT", "9000"),
    ):
        monkeypatch.setenv(name, value)
    rota("up")
    assert runtime.plan is not None
    assert runtime.plan.work is not None
    assert runtime.plan.binding is not None
    assert runtime.plan.work.settings.batch == 77
    assert runtime.plan.store_url == "memory://"
    assert (runtime.plan.binding.host, runtime.plan.binding.port) == ("127.0.0.2", 9000)


def test_people_get_lines(rota: RunRota, runtime: Runtime) -> None:
    printed = rota("up").out.splitlines()
    assert runtime.plan is not None
    assert printed == [
        "12:00:30Z  it stands",
        "12:00:30Z  a message",
        "12:00:30Z  a warning",
        "12:00:30Z  worker stopped, finished",
        "First token: rota_secret",
        "It is shown once and allows everything: keep it, it opens the pages.",
    ]


def test_programs_get_json_without_a_token(rota: RunRota, runtime: Runtime) -> None:
    printed = rota("up", "--json").out
    assert runtime.plan is not None
    assert not runtime.plan.greets
    assert "rota_secret" not in printed
    assert '"message": "it stands"' in printed
    assert all(line.startswith("{") for line in printed.splitlines())


def test_logging_is_as_it_was_afterwards(rota: RunRota, runtime: Runtime) -> None:
    own = logging.getLogger("rota")
    kept, handlers = own.level, list(logging.getLogger().handlers)
    own.setLevel(logging.ERROR)
    try:
        rota("up")
        assert own.level == logging.ERROR
    finally:
        own.setLevel(kept)
    assert runtime.plan is not None
    assert logging.getLogger().handlers == handlers


def test_a_second_stop_ends_like_an_interrupted_program(
    rota: RunRota, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rota.cli.process.run_runtime", Runtime(RuntimeEnd.AT_ONCE).run)
    assert rota("work").status == 130


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_refused(rota: RunRota, port: str) -> None:
    assert rota("serve", "--port", port).status == 2


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            WorkerStarted(worker="w", kinds=["a", "b"], concurrency=3),
            "worker started: a, b; 3 at once",
        ),
        (
            WorkerStopping(worker="w", running_count=2, grace_ms=1),
            "worker takes no more jobs; 2 still running",
        ),
        (
            WorkerStopped(worker="w", manner="at once", handed_back_count=2, unwritten_count=0),
            "worker stopped, at once; 2 handed back",
        ),
        (
            JobSettled(**JOB, outcome="succeeded", state="done", **TIMES),
            "mail 01 succeeded in 1s",
        ),
        (
            JobFailed(
                **JOB,
                outcome="failed",
                state="queued",
                err_code="E",
                error="no \x1b[2J paper",
                due_at=NOW,
                **TIMES,
            ),
            "mail 01 failed, attempt 2, again at 12:00:30Z: no \\x1b[2J paper",
        ),
        (
            JobFailed(
                **JOB,
                outcome="failed",
                state="dlq",
                err_code="E",
                error="no paper",
                due_at=NOW,
                **TIMES,
            ),
            "mail 01 failed for good, attempt 2: no paper",
        ),
        (
            JobDeferred(**{**JOB, "tenant": "guild-7"}, until=NOW, reason="quiet hours"),
            "mail 01 of guild-7 held back until 2027-03-26 12:00:30Z: quiet hours",
        ),
        (
            JobStalled(**JOB, worker="w", lease_until=NOW, state="queued", loss_count=1),
            "mail 01 was taken from w, whose lease ran out",
        ),
        (
            AlertRaised(concern="task_fails", source="task", alert_name="a", text="task a fails"),
            "alert: task a fails",
        ),
        (
            AlertEnded(concern="task_fails", source="task", alert_name="a"),
            "alert is over: task fails, task a",
        ),
        (
            AlertNotSent(error="no route", alert_count=1),
            "the alert webhook failed: no route",
        ),
    ],
)
def test_events_are_worded(event: Event, words: str) -> None:
    assert describe_event(event) == words


APP = """
from datetime import timedelta
from rota import Rota
from rota.worker import WorkerSettings

app = Rota("memory://", settings=WorkerSettings(batch=3, concurrency=4))
"""


@pytest.mark.parametrize("command", ["up", "serve", "work"])
def test_every_command_honours_the_settings_of_the_environment_and_then_those_of_the_app(
    command: str, rota: RunRota, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"app_for_{command}"
    Path(f"{module}.py").write_text(APP, encoding="utf-8")
    monkeypatch.setenv("WORKER_POLL_MS", "250")
    monkeypatch.setenv("WORKER_LEASE_MS", "5000")
    assert rota(command, f"{module}:app").status == 0
    assert runtime.plan is not None
    found = runtime.plan.worker_settings
    assert (found.poll_for, found.lease_for) == (timedelta(seconds=0.25), timedelta(seconds=5))
    assert (found.batch, found.concurrency) == (3, 4)
    monkeypatch.setenv("WORKER_BATCH", "7")
    rota(command, f"{module}:app")
    assert runtime.plan.worker_settings.batch == 7


def test_a_worker_shows_its_metrics_at_the_port_it_is_given(
    rota: RunRota, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rota("work").status == 0
    assert runtime.plan is not None
    assert runtime.plan.metrics is None
    rota("work", "--metrics-port", "9100")
    assert runtime.plan.metrics == (9100, "127.0.0.1")
    monkeypatch.setenv("ROTA_METRICS_PORT", "9200")
    monkeypatch.setenv("ROTA_METRICS_HOST", "10.0.0.7")
    rota("work")
    assert runtime.plan.metrics == (9200, "10.0.0.7")


@pytest.mark.parametrize("command", ["up", "serve"])
def test_the_scheduler_of_a_service_has_limits_and_a_policy(
    rota: RunRota, runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    text = "from datetime import timedelta\nJOBS = [('a', '0 9 * * *', print, timedelta())]\n"
    (tmp_path / "crew_of_tasks.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = (command, "--port", "0", "--tasks", "crew_of_tasks:JOBS")
    assert rota(*given).status == 0
    assert runtime.plan is not None
    assert runtime.plan.tasks is not None
    usual = runtime.plan.tasks
    assert usual.policy == DECLARATIVE
    assert (usual.settings.max_concurrent_runs, usual.settings.run_timeout) == (
        1_000,
        timedelta(days=1),
    )
    limits = ("--max-runs", "5", "--run-timeout", "90s", "--poll-at-least-every", "1m")
    assert rota(*given, "--policy", "polling", *limits).status == 0
    chosen = runtime.plan.tasks
    assert chosen is not None
    assert chosen.policy == POLLING
    settings = chosen.settings
    assert (settings.max_concurrent_runs, settings.run_timeout) == (5, timedelta(seconds=90))
    assert settings.poll_at_least_every == timedelta(minutes=1)
    refused = rota(*given, "--run-timeout", "soon")
    assert refused.status != 0
    assert "--run-timeout" in refused.err
