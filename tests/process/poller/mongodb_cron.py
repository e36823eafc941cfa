"""The real mongodb-cron, in a process of its own: installed once under ``build/``, and run."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.process.fleet import PATIENCE, ROOT

PACKAGES = ("mongodb-cron@1.9.0", "mongodb@6.3.0")
"""Its last release, and a driver of its range."""

PROGRAM = Path(__file__).with_name("mongodb_cron.cjs")


def replay_cases(url: str, now: str, cases: Any) -> dict[str, Any]:
    """What it is given, and leaves behind, in each case; all in MongoDB's extended JSON."""
    orders = {"url": url, "now": now, "cases": cases}
    ended = subprocess.run(
        ["node", str(PROGRAM), "replay"],
        input=json.dumps(orders),
        capture_output=True,
        env=_environment(),
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    outcomes: dict[str, Any] = json.loads(ended.stdout)
    return outcomes


@contextmanager
def polling_peer(
    folder: Path, url: str, collection: str, options: Mapping[str, Any]
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that polls with it, and keeps a journal as the members of a pack do."""
    orders = {"url": url, "collection": collection, "options": options}
    (folder / "orders.json").write_text(json.dumps(orders))
    with (
        (folder / "orders.json").open("rb") as told,
        (folder / "member-peer.jsonl").open("wb") as journal,
        (folder / "member-peer.err").open("wb") as errors,
    ):
        peer = subprocess.Popen(
            ["node", str(PROGRAM), "poll"],
            env=_environment(),
            stdin=told,
            stdout=journal,
            stderr=errors,
        )
    try:
        yield peer
    finally:
        peer.kill()
        peer.wait(PATIENCE)


def _environment() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(_installed() / "node_modules"), "TZ": "UTC"}


def _installed() -> Path:
    """The folder of the packages, which are installed the first time."""
    folder = ROOT / "build/servers" / "-".join(PACKAGES)
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            _install(folder)
            (folder / ".complete").touch()
    return folder


def _install(folder: Path) -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        _do_without("no Node on this machine, and so no mongodb-cron to compare with")
    (folder / "package.json").write_text('{"private": true}')
    quietly = ("--silent", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    ended = subprocess.run(
        ["npm", "install", *quietly, *PACKAGES],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=300,
    )
    if ended.returncode != 0:
        _do_without(f"npm cannot install {' and '.join(PACKAGES)}")


def _do_without(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
