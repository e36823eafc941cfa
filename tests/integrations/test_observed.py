"""The example with Sentry and OpenTelemetry: a real worker, and a listener in Sentry's place."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.services import EXAMPLES
from tests.process.fleet import wait_for

pytestmark = pytest.mark.process

ENQUEUE = """
from observed import charge
print(charge.enqueue_sync(7, cents=990).result_sync(timeout="60s"))
print(charge.enqueue_sync(8, cents=0).id)
"""


class SentryListener(ThreadingHTTPServer):
    """Keeps the envelopes that are posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Intake)
        self.posted: list[tuple[str, list[Any]]] = []

    @property
    def dsn(self) -> str:
        return f"http://key@127.0.0.1:{self.server_port}/42"

    @property
    def events(self) -> list[Any]:
        """The events; an envelope is lines of JSON, and the line before an event says so."""
        return [
            line
            for _, lines in self.posted
            for head, line in pairwise(lines)
            if head.get("type") == "event"
        ]


class _Intake(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        assert isinstance(self.server, SentryListener)
        self.server.posted.append((self.path, [json.loads(line) for line in body.splitlines()]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it
        """Print nothing."""


@pytest.fixture
def sentry() -> Iterator[SentryListener]:
    with SentryListener() as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield listener
        listener.shutdown()
        thread.join()


@contextmanager
def working(environ: dict[str, str], log: Path) -> Iterator[None]:
    rota = str(Path(sys.executable).with_name("rota"))
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [rota, "work", "observed:app"], cwd=EXAMPLES, env=environ, stdout=out, stderr=out
        )
        try:
            yield
        finally:
            worker.terminate()
            assert worker.wait(60) == 0


def read_spans(printed: str) -> list[Any]:
    """The spans among other lines; each is printed as JSON over several lines."""
    decoder, found, at = json.JSONDecoder(), [], printed.find("{\n")
    while at >= 0:
        span, end = decoder.raw_decode(printed, at)
        found.append(span)
        at = printed.find("{\n", end)
    return found


def test_errors_reach_sentry_and_spans_are_exported(sentry: SentryListener, tmp_path: Path) -> None:
    log = tmp_path / "log"
    environ = {
        **os.environ,
        "SENTRY_DSN": sentry.dsn,
        "ROTA_STORE": f"sqlite:///{tmp_path}/rota.db",
    }
    with working(environ, log):
        command = [sys.executable, "-c", ENQUEUE]
        printed = subprocess.check_output(command, cwd=EXAMPLES, env=environ, text=True)
        result, failing_id = printed.splitlines()
        assert result == "charged 990 for order 7"
        wait_for(lambda: bool(sentry.events), "an event in Sentry")
    (event,) = sentry.events
    assert {path for path, _ in sentry.posted} == {"/api/42/envelope/"}
    assert event["transaction"] == "charge"
    assert (event["tags"]["job.id"], event["tags"]["job.attempt"]) == (failing_id, 2)
    error = event["exception"]["values"][-1]
    assert (error["type"], error["value"]) == ("ValueError", "cannot charge 0 for order 8")
    assert error["stacktrace"]["frames"][-1]["function"] == "charge"
    spans = read_spans(log.read_text())
    runs = {(it["attributes"]["job.attempt"], it["status"]["status_code"]) for it in spans[1:]}
    assert [it["name"] for it in spans] == ["ask the bank", "charge", "charge", "charge"]
    assert runs == {(1, "UNSET"), (1, "ERROR"), (2, "ERROR")}
    assert spans[0]["parent_id"] == spans[1]["context"]["span_id"]
    assert spans[0]["context"]["trace_id"] == spans[1]["context"]["trace_id"]
