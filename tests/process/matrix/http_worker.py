"""A worker that speaks only HTTP, as one in another language would."""

import threading
import traceback
from pathlib import Path
from typing import Any

import httpx2

KINDS = [
    "matrix.add",
    "matrix.fail",
    "matrix.hold",
    "matrix.notify",
    "matrix.closed",
    "tests.process.matrix.tasks.tick",
    "matrix.say",
]


class HttpWorker:
    """Leases, runs and settles the jobs of the matrix in a thread until it is stopped."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()

    def _run(self) -> None:
        asked = {
            "worker": "http-1",
            "queues": ["default", "closed"],
            "wait_seconds": 1,
            "kinds": KINDS,
        }
        while not self._is_stopping.is_set():
            for job in self._post("/leases", asked)["items"]:
                self._settle(job)

    def _settle(self, job: dict[str, Any]) -> None:
        held = {"job_id": job["id"], "token": job["lease"]["token"]}
        outcome: dict[str, Any] = {"outcome": "succeeded"}
        try:
            result = self._work(job, held)
            outcome["result"] = result
        except KeyError as error:
            outcome = {
                "outcome": "failed",
                "error": f"KeyError: {error}",
                "error_code": "KeyError",
                "traceback": traceback.format_exc(),
            }
        self._post("/leases/settle", {"worker": "http-1", "outcomes": [held | outcome]})

    def _work(self, job: dict[str, Any], held: dict[str, Any]) -> int | None:
        payload = job["payload"]
        match job["kind"]:
            case "matrix.add":
                return int(payload["x"] + payload["y"])
            case "matrix.fail":
                return int({}[payload["key"]])
            case "matrix.hold":
                self._hold(Path(payload["released_by"]), held)
        return None

    def _hold(self, released_by: Path, held: dict[str, Any]) -> None:
        """Extend the lease meanwhile, as it would expire."""
        self._is_stopping.wait(1.2)
        while not (released_by.exists() or self._is_stopping.wait(0.3)):
            self._post("/leases/extend", {"worker": "http-1", "leases": [held]})

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._http.post(f"/api/v1{path}", json=body).raise_for_status().json()
