"""Dead-man switches fire although kill -9 ended the only worker and the only scheduler."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx2
import pytest
from tests.process.fleet import wait_for
from tests.process.service.up_process import Running, run_rota

from rota import open_store
from rota.clock.system import SystemClock, monotonic
from rota.scheduler.storage import write_task
from rota.scheduler.task import TaskState

pytestmark = pytest.mark.process

PROMISED_SECONDS = 60
MINUTE = timedelta(minutes=1)
PROGRAM = "tests.process.programs.watched_tasks"


@contextmanager
def receiving() -> Iterator[tuple[int, list[str]]]:
    """A webhook: its port, and the texts of the alerts that were posted."""
    texts: list[str] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            texts.extend(it["text"] for it in json.loads(body)["alerts"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield server.server_port, texts
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


async def seed(url: str, now: datetime) -> datetime:
    """A task that last succeeded three minutes ago. Returns its next occurrence."""
    at = now - 3 * MINUTE
    state = TaskState(
        name="backup",
        cron_expression="* * * * *",
        retry_delay_ms=3_600_000,
        registered_at=at,
        last_attempt_at=at,
        last_success_at=at,
        running=False,
    )
    async with await open_store(url) as store:
        await store.write_all([write_task(state, None)])
    return at.replace(second=0, microsecond=0) + MINUTE


def read_overdue(url: str) -> set[str]:
    lines = httpx2.get(url).raise_for_status().text.splitlines()
    found = [it for it in lines if it.startswith("rota_success_overdue_seconds{")]
    return {name for name in ("tick", "backup") for it in found if f'name="{name}"' in it}


def test_the_surviving_process_reports_the_one_that_was_killed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rota.db'}"
    now = SystemClock().now().astimezone(UTC)
    alert_for = now + timedelta(seconds=4) - asyncio.run(seed(url, now))
    with receiving() as (port, posted):
        environ = {
            "ROTA_STORE": url,
            "ROTA_WATCH_MS": "300",
            "ROTA_HTTP_ALLOW": "127.0.0.1",
            "ROTA_HTTP_PORTS": str(port),
            "ROTA_HTTP_PLAIN": "1",
            "ALERT_SECONDS": str(alert_for.total_seconds()),
        }
        webhook = ("--alert-webhook", f"http://127.0.0.1:{port}/alerts")
        tasks = ("--tasks", f"{PROGRAM}:list_tasks", "--zone", "UTC")
        up = Running(tmp_path, "up", f"{PROGRAM}:app", *tasks, "--port", "0", "--json", **environ)
        other = ("--queue", "other", "--metrics-port", "0")
        with up, Running(tmp_path, "work", *other, *webhook, "--json", **environ) as left:
            wait_for(lambda: has_line(up, "TaskRunStarted", "backup"), "the run of the task")
            wait_for(lambda: has_line(up, "JobSettled", "tick"), "the run of the series")
            up.process.kill()
            killed = monotonic()
            metrics = json.loads(left.wait_for("Metrics: "))["message"].removeprefix("Metrics: ")
            wait_for(lambda: read_overdue(metrics) == {"tick", "backup"}, "the metrics")
            wait_for(lambda: is_said(posted), "the webhook")
            checked = run_rota(tmp_path, "check", **environ)
            assert monotonic() - killed < PROMISED_SECONDS
    assert checked.returncode == 1
    assert is_said(checked.stdout.splitlines())


def has_line(running: Running, event: str, name: str) -> bool:
    return any(f'"{event}"' in line and name in line for line in list(running.printed))


def is_said(lines: list[str]) -> bool:
    wanted = ("series tick has not succeeded by", "task backup has not succeeded by")
    return all(any(it.startswith(text) for it in list(lines)) for text in wanted)
