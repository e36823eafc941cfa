"""Which packages a command loads: it must not pay for a server or a driver it does not use."""

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from rota import Rail, open_store

PROGRAM = """
import json, sys
from rota.cli.main import run
status = run(sys.argv[1:])
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))
print(json.dumps(sorted(name for name in sys.modules if name.startswith('rota.'))))
sys.exit(status)
"""
SERVER = {"starlette", "uvicorn", "jinja2", "httpx2", "prometheus_client"}
DRIVERS = {"asyncpg", "pymongo", "redis"}
MOST_MODULES_OF_WHY = 128
COMMANDS = {f"rota.cli.{name}" for name in ("cron", "jobs", "listings", "rrule", "up", "why")}


def loaded_by(folder: Path, *argv: str) -> tuple[set[str], set[str]]:
    """The packages, and the modules of rota, that a command line loads."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv],
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=60,
    )
    packages, modules = map(json.loads, done.stdout.splitlines()[-2:])
    return set(packages), set(modules)


def create_job(folder: Path) -> str:
    """The id of a job in the default store of a folder."""

    async def create() -> str:
        async with await open_store(f"sqlite:///{folder / 'rota.db'}") as store:
            return await Rail(store).schedule_once(
                "print", {}, run_at=datetime(2027, 1, 1, tzinfo=UTC)
            )

    return asyncio.run(create())


def test_the_version_loads_nothing_but_itself(tmp_path: Path) -> None:
    packages, modules = loaded_by(tmp_path, "--version")
    assert not packages & {*SERVER, *DRIVERS, "apsw", "asyncio", "cyclopts", "msgspec", "rich"}
    assert modules == {"rota.cli", "rota.cli.main"}


def test_garbage_is_collected_from_when_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "import gc\n\nprint(gc.isenabled(), gc.get_freeze_count() > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "plan", "told:app"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.splitlines()[0] == b"True True"


def test_help_loads_no_command(tmp_path: Path) -> None:
    packages, modules = loaded_by(tmp_path, "--help")
    assert not modules & COMMANDS
    assert not packages & {*SERVER, *DRIVERS, "apsw"}


def test_help_of_a_command_that_asks_a_server_loads_no_server(tmp_path: Path) -> None:
    packages, modules = loaded_by(tmp_path, "jobs", "list", "--help")
    assert not packages & {*DRIVERS, "apsw", "starlette", "uvicorn", "jinja2"}
    assert not {"rota.server", "rota.scheduler", "rota.worker"} & modules


def test_a_worker_loads_no_server_and_no_http_client(tmp_path: Path) -> None:
    packages, modules = loaded_by(tmp_path, "work", "--help")
    assert "rota.worker.executor" in modules
    assert not packages & (SERVER | DRIVERS)
    assert "rota.server" not in modules


def test_why_on_a_store_loads_its_driver_and_no_server(tmp_path: Path) -> None:
    packages, modules = loaded_by(tmp_path, "why", create_job(tmp_path))
    assert "apsw" in packages
    assert not packages & {*SERVER, *DRIVERS, "tomllib", "tzlocal", "zipfile"}
    assert not {"rota.client", "rota.server", "rota.scheduler", "rota.worker"} & modules
    assert len(modules) <= MOST_MODULES_OF_WHY


def test_jobs_of_a_store_are_listed_without_pages_and_templates(tmp_path: Path) -> None:
    create_job(tmp_path)
    packages, modules = loaded_by(tmp_path, "jobs", "list")
    assert "rota.server.api.jobs" in modules
    assert not packages & {*DRIVERS, "jinja2", "uvicorn"}
    assert not {"rota.server.pages", "rota.server.http.docs", "rota.poller.poller"} & modules
