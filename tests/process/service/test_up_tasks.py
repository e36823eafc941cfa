"""``rota up`` as a user starts and stops it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.process

ROTA = Path(sys.executable).with_name("rota")


@pytest.fixture
def up(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [str(ROTA), "up", "--port", "0", "--zone", "Europe/London"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def read_until(stream: IO[str] | None, wanted: str) -> list[str]:
    lines = []
    for line in stream or ():
        lines.append(line)
        if wanted in line:
            return lines
    raise AssertionError(f"{wanted!r} was never printed: {lines}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_what_is_due_and_stops_cleanly_when_asked(
    up: "subprocess.Popen[str]", number: signal.Signals
) -> None:
    read_until(up.stdout, "heartbeat succeeded")
    up.send_signal(number)
    rest, _ = up.communicate(timeout=30)
    assert up.returncode == 0
    assert "scheduler stopped" in rest


def test_it_goes_on_where_it_was(up: "subprocess.Popen[str]", tmp_path: Path) -> None:
    read_until(up.stdout, "heartbeat succeeded")
    up.kill()
    up.wait()
    listed = subprocess.run(
        [str(ROTA), "tasks", "list", "--json"],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert '"name": "heartbeat"' in listed.stdout
    assert '"last_reason": "occurrence"' in listed.stdout
    assert '"scheduler_count": 0' in listed.stdout
