"""``rota up`` as a user starts it, uses it, stops it and starts it again."""

import json
import signal
import socket
from pathlib import Path

import pytest
from tests.process.service.up_process import Running, Up, run_rota

pytestmark = pytest.mark.process

GREETING = {
    "name": "greet",
    "queue": "default",
    "kind": "log.message",
    "payload": {"message": "good morning"},
}
SLOW = """
import time

def slow(context):
    print("slow began", flush=True)
    until = time.monotonic() + float(context.payload["seconds"])
    while time.monotonic() < until and context.cancel_reason is None:
        time.sleep(0.02)
    print("slow ended", flush=True)

handlers = {"slow": slow}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow_jobs.py").write_text(SLOW, encoding="utf-8")
    return tmp_path


def slow_job(seconds: float) -> dict[str, object]:
    return {"name": "slow", "queue": "default", "payload": {"seconds": seconds}}


def test_a_job_made_over_http_runs_and_all_is_kept_across_a_restart(folder: Path) -> None:
    with Up(folder, "up") as up:
        token = up.read_token()
        status, job = up.ask("/api/v1/jobs", GREETING)
        assert status == 201
        up.wait_for("good morning")
        up.wait_for(f"log.message {job['id']} succeeded")
        assert up.ask("/health/live")[0] == up.ask("/health/ready")[0] == 200
        assert up.ask("/docs")[0] == 200
        status, page = up.ask("/admin")
        assert (status, "<title>" in page, "Rota" in page) == (200, True, True)
        assert up.stop(signal.SIGTERM) == 0
        assert not any("Traceback" in line for line in up.printed)
    with Up(folder, "up") as again:
        again.wait_for("worker started")
        again.token = token
        status, found = again.ask(f"/api/v1/jobs/{job['id']}")
        assert (status, found["status"]) == (200, "COMPLETED")
        assert again.stop(signal.SIGINT) == 0
        assert not any("First token" in line for line in again.printed)


def test_a_token_is_required(folder: Path) -> None:
    with Up(folder, "up") as up:
        assert up.ask("/api/v1/jobs")[0] == 401


def test_running_jobs_finish_while_the_process_is_not_ready(folder: Path) -> None:
    with Up(folder, "up", "--handlers", "slow_jobs:handlers") as up:
        up.read_token()
        _, job = up.ask("/api/v1/jobs", slow_job(2))
        up.wait_for("slow began")
        up.process.send_signal(signal.SIGTERM)
        up.wait_for("Stopping")
        assert up.ask("/health/ready")[0] == 503
        assert up.ask("/health/live")[0] == 200
        up.wait_for("slow ended")
        assert up.wait() == 0
    shown = run_rota(folder, "jobs", "list", "--json")
    statuses = {it["id"]: it["status"] for it in json.loads(shown.stdout)["items"]}
    assert statuses[job["id"]] == "COMPLETED"


def test_a_second_stop_returns_running_jobs_and_spends_no_attempt(folder: Path) -> None:
    with Up(folder, "up", "--handlers", "slow_jobs:handlers") as up:
        up.read_token()
        _, job = up.ask("/api/v1/jobs", slow_job(60))
        up.wait_for("slow began")
        up.process.send_signal(signal.SIGTERM)
        up.wait_for("Stopping: ")
        up.process.send_signal(signal.SIGTERM)
        up.wait_for("Stopping at once")
        assert up.wait() == 130
    shown = run_rota(folder, "jobs", "list", "--json")
    (found,) = [it for it in json.loads(shown.stdout)["items"] if it["id"] == job["id"]]
    assert (found["status"], found["attempt_count"]) == ("READY", 0)


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_port_that_is_taken_is_named_and_nothing_is_made(folder: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run_rota(folder, command, "--port", f"{port}")
    assert refused.returncode == 4
    assert refused.stderr == (
        f"error: Cannot listen on 127.0.0.1 port {port}: Address already in use\n"
    )
    assert not (folder / "rota.db").exists()


def test_a_worker_alone_runs_what_a_server_alone_takes(folder: Path) -> None:
    made = run_rota(
        folder, "tokens", "create", "test", "--scope", "read", "--scope", "write", "--json"
    )
    with (
        Up(folder, "serve") as serving,
        Running(folder, "work", "--handlers", "slow_jobs:handlers") as working,
    ):
        working.wait_for("worker started: http.request, log.message, slow")
        serving.token = json.loads(made.stdout)["secret"]
        _, job = serving.ask("/api/v1/jobs", slow_job(0))
        working.wait_for(f"slow {job['id']} succeeded")
        assert working.stop(signal.SIGTERM) == 0
        assert serving.stop(signal.SIGTERM) == 0


def test_changed_handlers_are_loaded_in_development(folder: Path) -> None:
    with Running(folder, "work", "--handlers", "slow_jobs:handlers", "--reload") as working:
        working.wait_for("worker started: http.request, log.message, slow")
        (folder / "slow_jobs.py").write_text(SLOW.replace('{"slow"', '{"slower"'), encoding="utf-8")
        working.wait_for("slow_jobs.py changed: the worker restarts")
        working.wait_for("worker started: http.request, log.message, slower")
        assert working.stop(signal.SIGTERM) == 0


def test_lines_for_programs_are_json_and_hold_no_token(folder: Path) -> None:
    with Running(folder, "up", "--port", "0", "--json") as up:
        up.wait_for("WorkerStarted")
        assert up.stop(signal.SIGTERM) == 0
        lines = [json.loads(line) for line in up.printed]
    assert {"WorkerStarted", "WorkerStopped"} <= {line.get("event") for line in lines}
    assert not any("rota_" in line for line in up.printed)


@pytest.mark.parametrize(
    ("argv", "status", "reason"),
    [
        (("up", "--handlers", "nothing_here:x"), 2, "there is no module nothing_here"),
        (("work", "--handlers", "slow_jobs:absent"), 2, "module slow_jobs has no absent"),
        (("up", "--tasks", "slow_jobs:SLOW"), 2, "module slow_jobs has no SLOW"),
        (("serve", "--store", "nowhere://"), 2, 'Invalid store address "nowhere://"'),
        (("serve", "--host", "192.0.2.1"), 4, "Cannot listen on 192.0.2.1 port 0"),
    ],
)
def test_an_unrunnable_program_is_reported_at_once(
    folder: Path, argv: tuple[str, ...], status: int, reason: str
) -> None:
    port = () if argv[0] == "work" else ("--port", "0")
    refused = run_rota(folder, *argv, *port)
    assert (refused.returncode, refused.stdout) == (status, "")
    assert reason in refused.stderr


def test_the_environment_is_checked_before_anything_is_opened(folder: Path) -> None:
    refused = run_rota(folder, "work", WORKER_BATCH="none", WORKER_LEASE_MS="1")
    assert refused.returncode == 2
    assert "WORKER_BATCH must be a whole number" in refused.stderr
    assert "WORKER_LEASE_MS must be from 1000" in refused.stderr
    assert not (folder / "rota.db").exists()
