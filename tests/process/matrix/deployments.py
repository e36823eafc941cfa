"""The deployments of the matrix: each the processes of one installation on one store."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.process.matrix.http_worker import HttpWorker
from tests.process.service.up_process import PATIENCE_SECONDS, Running

TASKS = "tests.process.matrix.tasks:app"
DECLARED = ("--tasks", "tests.process.matrix.tasks:registrations")

SETTINGS = {
    "WORKER_POLL_MS": "200",
    "WORKER_BATCH": "5",
    "WORKER_LEASE_MS": "5000",
    "WORKER_MAX_ATTEMPTS": "1",
    "ROTA_WATCH_MS": "500",
}


class Deployment:
    """A running installation. ``http`` asks its server, with a token that may do everything."""

    def __init__(self, server: Running, token: str, worker: Running | None = None) -> None:
        pages = _read_url(server, "Pages: ")
        self.url = pages.removesuffix("/admin")
        self.token = token
        self.processes = [server] if worker is None else [server, worker]
        self._worker = worker
        self.http_worker: HttpWorker | None = None
        headers = {"authorization": f"Bearer {token}"}
        self.http = httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_SECONDS)

    def get(self, path: str) -> Any:
        return self.http.get(f"/api/v1{path}").raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        return self.http.post(f"/api/v1{path}", json=body).raise_for_status().json()

    def scrape(self) -> str:
        return self.http.get("/metrics").raise_for_status().text

    def scrape_worker(self) -> str:
        """The metrics of the process in which the worker runs."""
        if self._worker is None:
            return self.scrape()
        address = _read_url(self._worker, "Metrics: ")
        return httpx2.get(address, timeout=PATIENCE_SECONDS).raise_for_status().text

    def stop_worker(self) -> None:
        """End the worker, if it can be ended without the server."""
        if self.http_worker is not None:
            self.http_worker.stop()
        if self._worker is not None:
            assert self._worker.stop(signal.SIGTERM) == 0

    def log(self) -> list[dict[str, Any]]:
        """The lines of all processes."""
        return [json.loads(line) for it in self.processes for line in it.printed]


def _read_url(process: Running, label: str) -> str:
    found = next((line for line in process.printed if label in line), None)
    line = found or process.wait_for(label)
    return str(json.loads(line)["message"].removeprefix(label))


@contextmanager
def deployed(name: str, folder: Path, store: str, token: str) -> Iterator[Deployment]:
    """One of ``DEPLOYMENTS``, until the context ends."""
    environ = {**SETTINGS, "ROTA_STORE": store}
    with ExitStack() as stack:

        def start(*argv: str, **more: str) -> Running:
            return stack.enter_context(Running(folder, *argv, **environ, **more))

        worker = None
        if name == "embedded":
            server = start("-m", "tests.process.matrix.host", program=sys.executable)
        elif name == "up":
            server = start("up", TASKS, *DECLARED, "--port", "0", "--json")
        else:
            server = start("serve", TASKS, *DECLARED, "--port", "0", "--json")
            if name == "serve + work":
                worker = start("work", TASKS, "--json", "--metrics-port", "0")
        running = Deployment(server, token, worker)
        stack.callback(running.http.close)
        if name == "serve + HTTP":
            running.http_worker = HttpWorker(running.http)
            stack.callback(running.http_worker.stop)
        yield running


DEPLOYMENTS = ("up", "serve + work", "serve + HTTP", "embedded")
