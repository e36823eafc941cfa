"""The same command, asked of a store and of the server on it, gives the same answer."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from tests.process.service.up_process import Up, run_rota
from tests.unit.cli.conftest import NOW, Outcome, RunRota, rota

from rota import open_store
from rota.cli.main import run
from rota.fleet.presence import WORKERS, SignOfLife, WorkerPresence
from rota.testing import seed_tasks

pytestmark = pytest.mark.process

__all__ = ["rota"]

Ask = Callable[..., tuple[Outcome, Outcome]]
LEAP_TASKS = """
from datetime import timedelta
registrations = [("leap", "0 10 29 2 *", print, timedelta(milliseconds=1500))]
broken = [("leap", "0 10 29 2", print, timedelta())]
"""
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
_MOVING = re.compile(
    r'("(?:asked_at|taken_at)": )"[^"]*"|("late_seconds": )[0-9.]+|, in [a-z0-9 ]+\.'
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of a store with an example in it, and the URL of a server on that store."""
    folder = tmp_path_factory.mktemp("place")
    assert run_rota(folder, "demo").returncode == 0
    asyncio.run(add_task_and_worker(f"sqlite:///{folder / 'rota.db'}"))
    (folder / "leap_tasks.py").write_text(LEAP_TASKS, encoding="utf-8")
    scopes = [word for it in ("read", "write", "operate", "admin") for word in ("--scope", it)]
    made = run_rota(folder, "tokens", "create", "test", *scopes, "--json")
    (folder / "token").write_text(json.loads(made.stdout)["secret"], encoding="utf-8")
    with Up(folder, "serve") as serving:
        yield folder, serving.url


async def add_task_and_worker(url: str) -> None:
    """A task that is next due on the same day, and a worker that is present, by either clock."""
    worker = WorkerPresence(
        id="w7",
        host="web-1",
        pid=4711,
        started_at=NOW,
        seen_at=NOW,
        gone_after=timedelta(days=36_500),
        queues=("post",),
        tenants=None,
        kinds=("send",),
        concurrency=3,
        version="1.2.3",
        labels=("v2",),
    )
    async with await open_store(url) as store:
        record = {"name": "leap", "cronExpression": "0 9 29 2 *", "retryDelayMs": 60_000}
        await seed_tasks(store, [record])
        await SignOfLife(store, WORKERS, worker.id).show(msgspec.json.encode(worker))


@pytest.fixture
def both(place: tuple[Path, str], rota: RunRota, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs a command on the store, and then on the server."""
    folder, url = place
    monkeypatch.chdir(folder)
    for name in ("ROTA_STORE", "ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    def ask(*argv: str) -> tuple[Outcome, Outcome]:
        return rota(*argv), rota(*argv, "--url", url, "--token-file", "token")

    return ask


def settle(text: str) -> str:
    """Without what depends on when it was asked."""
    return _MOVING.sub(r"\1\2*", text)


def first_id(both: Ask, *argv: str) -> str:
    items = both(*argv, "--json")[0].document["items"]
    return str(items[0]["id"])


@pytest.mark.parametrize(
    "argv",
    [
        ("jobs", "list", "--limit", "150"),
        ("jobs", "list", "--state", "pending", "--queue", "builds"),
        ("jobs", "list", "--match", "release"),
        ("series", "list"),
        ("series", "preview", "--cron", "30 1 * * *", "--zone", "Europe/London"),
        ("dlq", "list"),
        ("gates", "show"),
        ("tokens", "list"),
        ("workers",),
        ("audit",),
        ("audit", "--action", "token.issue", "--limit", "1"),
        ("dlq", "retry", "--all", "--dry-run"),
        ("tasks", "list"),
        ("tasks", "why", "leap"),
        ("tasks", "why", "leap", "--at", "2028-02-29T09:00"),
        ("tasks", "run-now", "leap"),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_lists_are_the_same(both: Ask, argv: tuple[str, ...], flags: tuple[str, ...]) -> None:
    if argv[:2] == ("series", "preview"):
        argv = (*argv, "--start", "2027-03-26")
    on_store, on_server = both(*argv, *flags)
    if argv[0] == "tokens":  # using it is noted, once a minute
        on_store, on_server = both(*argv, *flags)
    assert (on_store.status, on_store.err) == (0, "")
    assert on_server == on_store


@pytest.mark.parametrize(
    "argv", [("jobs", "show"), ("why",), ("jobs", "update"), ("jobs", "run-now")]
)
def test_explanations_of_a_job_are_the_same(both: Ask, argv: tuple[str, ...]) -> None:
    job_id = first_id(both, "jobs", "list", "--queue", "builds", "--state", "pending")
    on_store, on_server = both(*argv, job_id)
    assert settle(on_server.out) == settle(on_store.out)
    assert (on_server.status, on_server.err) == (on_store.status, on_store.err)


def test_workers_and_entries_of_the_audit_log_are_found_on_both(both: Ask) -> None:
    for workers, entries in zip(both("workers"), both("audit"), strict=True):
        assert re.search(r"^w7 +web-1 +1\.2\.3 +0/3 .* post +v2 +send$", workers.out, re.MULTILINE)
        assert "  token.issue  " in entries.out


def test_a_plan_of_tasks_is_the_same(both: Ask) -> None:
    on_store, on_server = both("tasks", "plan", "leap_tasks:registrations")
    assert "retryDelayMs: 60000 -> 1500" in on_store.out
    assert on_server == on_store


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (("tasks", "why", "nobody"), 3),
        (("tasks", "run-now", "nobody"), 3),
        (("tasks", "plan", "leap_tasks:broken"), 2),
        (("tasks", "list", "--zone", "Mars"), 2),
        (("jobs", "show", UNKNOWN), 3),
        (("jobs", "show", "no-id"), 2),
        (("audit", "--job", "abcdef"), 3),
        (("audit", "--job", "no-id"), 2),
        (("jobs", "create", "a", "--queue", "no queue"), 2),
        (("jobs", "create", "a", "--after", UNKNOWN), 2),
        (("series", "create", "a", "--cron", "61 * * * *"), 2),
        (("gates", "quiet-hours", "--start", "1", "--end", "2"), 2),
        (("jobs", "list", "--cursor", "nowhere"), 2),
    ],
)
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_refusals_have_the_same_words(
    both: Ask, argv: tuple[str, ...], status: int, flags: tuple[str, ...]
) -> None:
    on_store, on_server = both(*argv, *flags)
    assert on_store.status == status, on_store.err
    assert on_server == on_store


def test_a_missing_token_or_server_is_reported(
    place: tuple[Path, str], rota: RunRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = place
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ROTA_TOKEN", raising=False)
    refused = rota("jobs", "list", "--url", url)
    assert refused.status == 5
    assert "A valid token is needed" in refused.err
    assert "Give a token: --token-file PATH, or ROTA_TOKEN" in refused.err
    nobody = rota("jobs", "list", "--url", "http://127.0.0.1:1")
    assert nobody.status == 6
    assert nobody.err.startswith("error: The server at http://127.0.0.1:1 does not answer")


def test_the_environment_says_where(
    place: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, url = place
    monkeypatch.setenv("ROTA_URL", url)
    monkeypatch.setenv("ROTA_TOKEN", (folder / "token").read_text(encoding="utf-8"))
    assert run(["top", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["PENDING"] == 7
