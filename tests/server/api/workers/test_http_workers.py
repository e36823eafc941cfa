"""The workers of ``examples/http_worker``, as programs of their own, against a real server."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.api.neighbours import Names
from tests.server.service import JOBS

from rota.runtime.plan import Binding, listen_on
from rota.runtime.web import WebPart
from rota.runtime.wiring import open_store
from rota.server import create_app

EXAMPLES = Path(__file__).parents[4] / "examples" / "http_worker"
PATIENCE = 120


def require(*programs: str) -> None:
    """Without them there is nothing to try; where tests must not be left out, that is a failure."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"cannot be left out in CI, and this machine has no {', '.join(missing)}")
    if missing:
        pytest.skip(f"this machine has no {', '.join(missing)}")


class Running:
    """A server that listens, and a client of it."""

    def __init__(self, url: str, client: httpx2.AsyncClient) -> None:
        self.url = url
        self.client = client

    async def make(self, **fields: Any) -> str:
        answer = await self.client.post(
            JOBS, json={"retry_policy": {"base_delay_seconds": 1}, **fields}
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def show(self, job_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = (await self.client.get(f"{JOBS}/{job_id}")).json()
        return shown

    async def run(self, *command: str, **environment: str) -> str:
        """Run a worker until it ends by itself; what it said."""
        answer = {**os.environ, "ROTA_URL": self.url, "ROTA_TOKEN": "ours", **environment}
        process = await asyncio.create_subprocess_exec(
            *command,
            env=answer,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            process.kill()
            raise
        assert process.returncode == 0, output.decode()
        return output.decode()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with serving(tmp_path / "rota.db") as running:
        yield running


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Running]:
    store = await open_store(f"sqlite:///{path}")
    listening = listen_on(Binding(port=0))
    part = WebPart(create_app(store, Names()), listening)
    serving = asyncio.create_task(part.run())
    headers = {"authorization": "Bearer ours"}
    async with store, httpx2.AsyncClient(base_url=listening.url, headers=headers) as client:
        yield Running(listening.url, client)
        part.stop()
        await serving


async def test_the_shell_worker_hands_the_payload_to_the_command(
    server: Running, tmp_path: Path
) -> None:
    require("sh", "curl", "jq")
    payload = {"say": 'it\'s "fine", $HOME `x`\nand more'}
    job_id = await server.make(name="good", queue="shell", payload=payload)
    command = tmp_path / "command.sh"
    command.write_text(f'#!/bin/sh\ncat > "{tmp_path}/heard.json"\n')
    command.chmod(0o700)
    output = await server.run(
        "sh", str(EXAMPLES / "worker.sh"), ROTA_JOBS="1", ROTA_COMMAND=str(command)
    )
    assert f"job {job_id}: COMPLETED" in output
    assert json.loads((tmp_path / "heard.json").read_text()) == payload


async def test_the_error_output_of_a_command_is_kept(server: Running, tmp_path: Path) -> None:
    require("sh", "curl", "jq")
    job_id = await server.make(name="bad", queue="shell", retry_policy={"max_attempts": 1})
    later_id = await server.make(name="later", queue="shell", priority=1)
    command = tmp_path / "command.sh"
    command.write_text(
        f'#!/bin/sh\n[ -e "{tmp_path}/seen" ] && exit 75\ntouch "{tmp_path}/seen"\n'
        'echo "disk \\"full\\"" >&2\nexit 3\n'
    )
    command.chmod(0o700)
    output = await server.run(
        "sh", str(EXAMPLES / "worker.sh"), ROTA_JOBS="2", ROTA_COMMAND=str(command)
    )
    assert f"job {job_id}: FAILED" in output
    shown = await server.show(job_id)
    assert shown["last_error"] == 'exit status 3: disk "full"'
    later = await server.show(later_id)
    assert (later["status"], later["attempt_count"]) == ("READY", 0)


async def test_the_node_worker_runs_jobs_of_several_kinds(server: Running) -> None:
    require("node")
    jobs = {
        "greet": await server.make(name="greet", queue="node", payload={"name": "Ada"}),
        "flaky": await server.make(name="flaky", queue="node"),
        "hopeless": await server.make(name="hopeless", queue="node"),
        "sleepy": await server.make(name="sleepy", queue="node"),
        "unknown": await server.make(
            name="unknown", queue="node", retry_policy={"max_attempts": 1}
        ),
    }
    output = await server.run("node", str(EXAMPLES / "worker.mjs"), ROTA_JOBS="5")
    assert "Hello, Ada!" in output
    shown = {name: await server.show(job_id) for name, job_id in jobs.items()}
    assert {name: it["status"] for name, it in shown.items()} == {
        "greet": "COMPLETED",
        "flaky": "COMPLETED",
        "hopeless": "FAILED",
        "sleepy": "READY",
        "unknown": "READY",
    }
    assert shown["flaky"]["attempt_count"] == 1
    assert shown["hopeless"]["ending"] == "discarded"
    assert (shown["unknown"]["attempt_count"], shown["unknown"]["last_error"]) == (0, None)


async def test_a_long_poll_ends_when_a_job_comes_or_the_client_disconnects(
    server: Running,
) -> None:
    wish = {"worker": "w", "queues": ["late"], "wait_seconds": 20}
    waiting = asyncio.create_task(server.client.post("/api/v1/leases", json=wish, timeout=60))
    job_id = await server.make(name="late", queue="late")
    answer = await asyncio.wait_for(waiting, 60)
    assert [job["id"] for job in answer.json()["items"]] == [job_id]
    with pytest.raises(httpx2.ReadTimeout):
        await server.client.post("/api/v1/leases", json=wish, timeout=0.3)
    again = await server.make(name="late", queue="late")
    assert (await server.show(again))["status"] == "READY"
