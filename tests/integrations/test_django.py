"""A Django site whose tasks Rota runs: under gunicorn, and in Django's own test suite."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.integrations.services import EXAMPLES, PATIENCE, find_port, running
from tests.process.fleet import wait_for

from rota import open_store

pytestmark = pytest.mark.process

SITE = EXAMPLES / "django_site"
DJANGO = "django==6.1.3"
"""The release whose tests run here. Django's own tests are read from its source distribution."""


def manage(folder: Path, *argv: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ROTA_")}
    return subprocess.run(
        [sys.executable, "manage.py", *argv],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the example, so that its files are its own."""
    return Path(shutil.copytree(SITE, tmp_path / "site"))


def make_tables(site: Path, **environ: str) -> None:
    made = manage(site, "migrate", "--run-syncdb", "-v", "0", **environ)
    assert made.returncode == 0, made.stderr


def test_a_site_enqueues_and_a_worker_runs_its_tasks(site: Path, tmp_path: Path) -> None:
    make_tables(site)
    port = find_port()
    web = ["gunicorn", "shop.wsgi", "--bind", f"127.0.0.1:{port}", "--workers", "2"]
    work = ["python", "manage.py", "rota", "work"]
    with (
        running(web, site, port, LOG=str(tmp_path / "web")) as service,
        running(work, site, None, LOG=str(tmp_path / "work")),
    ):
        status, taken = service.ask("/orders/7", "POST")
        assert status == 202, service.printed
        place = f"/confirmations/{taken['task']}"
        wait_for(lambda: service.ask(place)[1]["status"] == "SUCCESSFUL", "the end of the task")
        assert service.ask(place)[1]["text"] == "order 7 confirmed"
        status, page = service.ask("/rota/admin/sign-in")
        assert status == 200
        assert "/rota/" in page
        assert service.ask("/rota/api/v1/jobs")[0] == 401


def test_a_task_commits_and_rolls_back_with_its_transaction(
    site: Path, tmp_path: Path, database_url: str
) -> None:
    make_tables(site, DATABASE_URL=database_url)
    port = find_port()
    web = ["gunicorn", "shop.wsgi", "--bind", f"127.0.0.1:{port}"]
    with running(web, site, port, LOG=str(tmp_path / "web"), DATABASE_URL=database_url) as service:
        assert service.ask("/orders/1", "POST")[0] == 202, service.printed
        assert service.ask("/orders/2?fail=1", "POST")[0] == 500
    assert list_orders(database_url) == [1]
    assert list_payloads(database_url) == [[1]]


FIRST = """
import django, os
django.setup()
from django.db import connection, transaction
from rota import Rota
from shop.tasks import confirm
app = Rota(os.environ["DATABASE_URL"])
@app.task
def ship(number: int) -> None: ...
with transaction.atomic():
    first = confirm.enqueue(4)
with transaction.atomic():
    second = ship.using(within=connection).enqueue_sync(5)
with transaction.atomic():
    third = ship.using(within=connection).enqueue_sync(6)
    transaction.set_rollback(True)
print(confirm.get_result(first.id).status, second.status_sync())
print(third.status_sync())
"""


def test_a_job_may_be_the_first_statement_of_its_transaction(site: Path, database_url: str) -> None:
    make_tables(site, DATABASE_URL=database_url)
    run = run_program(site, database_url, FIRST)
    assert run.stdout == "READY READY\n", run.stderr
    assert "JobNotFoundError" in run.stderr


def run_program(site: Path, database_url: str, program: str) -> "subprocess.CompletedProcess[str]":
    settings = {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=site,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


KILLED = """
import django, os, signal
django.setup()
from django.db import transaction
from shop.models import Order
from shop.tasks import confirm
with transaction.atomic():
    Order.objects.create(number=3)
    confirm.enqueue(3)
    {before}
{after}
"""


@pytest.mark.parametrize(
    ("before", "after", "numbers"),
    [("os.kill(os.getpid(), signal.SIGKILL)", "", []), ("", "os._exit(9)", [3])],
    ids=["killed before the commit", "killed after the commit"],
)
def test_a_killed_process_leaves_both_or_neither(
    site: Path, database_url: str, before: str, after: str, numbers: list[int]
) -> None:
    make_tables(site, DATABASE_URL=database_url)
    run_program(site, database_url, KILLED.format(before=before or "pass", after=after))
    assert list_orders(database_url) == numbers
    assert list_payloads(database_url) == [[number] for number in numbers]


def list_orders(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT number FROM shop_order ORDER BY number").fetchall()
    return [row[0] for row in rows]


def list_payloads(url: str) -> list[Any]:
    async def read() -> list[Any]:
        async with await open_store(url) as store:
            page = await store.find("default", limit=100)
            return [job.payload["args"] for job in page.items]

    return asyncio.run(read())


RANKED = """
import django
django.setup()
from shop.tasks import confirm
for priority in (-100, -81, 0, 100):
    confirm.using(priority=priority).enqueue(1)
"""


def test_each_priority_of_django_is_one_of_rota(site: Path, database_url: str) -> None:
    make_tables(site, DATABASE_URL=database_url)
    known = {"DATABASE_URL": database_url, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    subprocess.run(
        [sys.executable, "-c", RANKED],
        cwd=site,
        env=os.environ | known,
        check=True,
        timeout=PATIENCE,
    )

    async def read() -> list[int]:
        async with await open_store(database_url) as store:
            page = await store.find("default", limit=100)
            return sorted(job.priority for job in page.items)

    assert asyncio.run(read()) == [1, 1, 5, 10]


def test_a_wrong_option_is_named_by_djangos_checks(site: Path) -> None:
    settings = site / "shop" / "settings.py"
    settings.write_text(settings.read_text().replace('{"STORE":', '{"STOR": 1, "STORE":'))
    checked = manage(site, "check")
    assert checked.returncode != 0
    assert "unknown option 'STOR'" in checked.stderr


def find_newer_python() -> str | None:
    """A Python that Django 6 runs on."""
    if sys.version_info >= (3, 12):
        return sys.executable
    versions = Path.home() / ".pyenv" / "versions"
    found = [shutil.which(name) for name in ("python3.13", "python3.12", "python3.14")]
    found += [str(path) for path in sorted(versions.glob("3.1[2-9].*/bin/python"), reverse=True)]
    return next((path for path in found if path is not None and _runs(path)), None)


def _runs(path: str) -> bool:
    asked = subprocess.run([path, "-c", "import venv, ensurepip"], check=False, capture_output=True)
    return asked.returncode == 0


def test_djangos_own_tests_of_task_backends_pass(tmp_path: Path) -> None:
    newer = find_newer_python()
    if newer is None:
        pytest.skip("Django 6 needs Python 3.12 or newer, and this machine has none")
    python = make_environment(newer, tmp_path)
    folder = unpack_tests(python, tmp_path)
    suite = Path(__file__).parent / "django_tests" / "suite.py"
    ran = subprocess.run(
        [python, suite, folder],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent / "src")},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.stdout, ran.stderr[-4000:]
    report = json.loads(ran.stdout.splitlines()[-1])
    assert report["failed"] == [], ran.stderr[-4000:]
    assert report["passed"] >= 75
    assert len(report["not_applicable"]) <= 6


def make_environment(newer: str, folder: Path) -> str:
    """An environment with Django 6 and what Rota needs here, filled by the pip of this one."""
    subprocess.run([newer, "-m", "venv", "--without-pip", folder / "environment"], check=True)
    python = str(folder / "environment" / "bin" / "python")
    needed = (DJANGO, "setuptools", "msgspec", "apsw", "tzdata", "tzlocal")
    pip("--python", python, "install", "--no-compile", *needed)  # most of Django is never imported
    return python


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def unpack_tests(python: str, folder: Path) -> Path:
    """The folder that holds Django's package of tests of tasks."""
    only_source = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation")
    pip("--python", python, "download", *only_source, "--dest", str(folder), DJANGO)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        members = [it for it in packed.getmembers() if "/tests/tasks/" in it.name]
        packed.extractall(folder, members, filter="data")
    (tests,) = folder.glob("django-*/tests/tasks")
    return tests.parent
