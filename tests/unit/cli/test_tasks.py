"""``rota tasks`` on a store that a scheduler has used before."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import NOW, RunRota

from rota import open_store
from rota.scheduler.history import RunHistory, TaskRun
from rota.scheduler.orders import REQUESTS
from rota.stores.protocol import DocumentStore
from rota.testing import seed_tasks

ENDED = NOW - timedelta(hours=3)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'rota.db'}"


def use(url: str, action: Callable[[DocumentStore], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with await open_store(url) as store:
            return await action(store)

    return asyncio.run(run())


@pytest.fixture
def seeded(url: str) -> str:
    records = [
        {
            "name": "backup",
            "cronExpression": "30 1 * * *",
            "retryDelayMs": 300_000,
            "lastAttemptAt": ENDED,
            "lastSuccessAt": ENDED,
            "schedulerIdentifier": "gone",
        },
        {
            "name": "report\x1b[31m",
            "cronExpression": "0 9 * * 1-5",
            "retryDelayMs": 1_000,
            "lastAttemptAt": ENDED,
            "lastFailureAt": ENDED,
            "pendingRetryUntil": NOW + timedelta(minutes=5),
        },
        {
            "name": "sync",
            "cronExpression": "0 * * * *",
            "retryDelayMs": 1_000,
            "lastAttemptAt": NOW - timedelta(minutes=30),
            "schedulerIdentifier": "gone",
        },
    ]
    use(url, lambda store: seed_tasks(store, records))
    return url


def test_an_empty_store_is_said_to_be_empty(rota: RunRota, url: str) -> None:
    rota("store", "migrate", url)
    outcome = rota("tasks", "list", "--store", url)
    assert (outcome.status, outcome.out) == (0, "0 tasks; no scheduler is alive\n")


def test_tasks_are_listed_with_state_last_start_and_next_occurrence(
    rota: RunRota, seeded: str
) -> None:
    outcome = rota("tasks", "list", "--store", seeded)
    assert outcome.status == 0
    header, backup, report, sync, footer = outcome.out.splitlines()
    assert header.split() == ["Task", "State", "Started", "Next", "Schedule"]
    assert backup.split("  ")[-1] == "At 01:30 every day"
    assert "waiting      3h ago   Sat 2027-03-27 01:30" in backup
    assert report.startswith(r"report\x1b[31m  retrying     3h ago   Mon 2027-03-29 09:00")
    assert sync.startswith("sync            interrupted  30m ago  Fri 2027-03-26 13:00")
    assert footer == "3 tasks; no scheduler is alive"


def test_the_list_can_be_narrowed_and_cut(rota: RunRota, seeded: str) -> None:
    assert "backup" not in rota("tasks", "list", "--store", seeded, "--match", "syn").out
    cut = rota("tasks", "list", "--store", seeded, "--limit", "1").out
    assert "... and 2 more; see --limit and --match" in cut


def test_the_list_is_to_be_had_for_programs(rota: RunRota, seeded: str) -> None:
    document = rota("tasks", "list", "--store", seeded, "--json").document
    assert (len(document["items"]), document["has_more"]) == (3, False)
    assert (document["scheduler_count"], document["unreadable"]) == (0, [])
    backup = document["items"][0]
    assert (len(backup["occurrences"]), backup["occurrences"][0]) == (5, "2027-03-27T01:30:00Z")
    assert {key: value for key, value in backup.items() if key != "occurrences"} == {
        "name": "backup",
        "phase": "AwaitingRun",
        "is_alive": False,
        "is_interrupted": False,
        "cron": "30 1 * * *",
        "description": "At 01:30 every day",
        "retry_delay_ms": 300_000,
        "registered_at": None,
        "last_attempt_at": "2027-03-26T09:00:30Z",
        "last_success_at": "2027-03-26T09:00:30Z",
        "last_failure_at": None,
        "last_reason": None,
        "retry_at": None,
        "retry_count": 0,
        "scheduler": "gone",
        "is_paused": False,
        "pause": None,
    }


@pytest.fixture
def registrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "planned_tasks.py").write_text(
        "from datetime import timedelta\n"
        "async def work(): ...\n"
        "def registrations():\n"
        "    delay = timedelta(minutes=5)\n"
        "    return [('backup', '30 2 * * *', work, delay), ('new', '0 0 1 1 *', work, delay)]\n"
        "broken = [('backup', '30 2 * *', work, timedelta())]\n"
        "number = 7\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "planned_tasks:registrations"


def test_a_plan_shows_what_would_change_and_changes_nothing(
    rota: RunRota, seeded: str, registrations: str
) -> None:
    before = rota("tasks", "list", "--store", seeded, "--json").out
    outcome = rota("tasks", "plan", registrations, "--store", seeded)
    assert outcome.status == 0
    assert "cronExpression: 30 1 * * * -> 30 2 * * *" in outcome.out
    assert outcome.out.splitlines()[-1] == "1 new, 1 changed, 2 removed, 0 kept"
    assert rota("tasks", "list", "--store", seeded, "--json").out == before


def test_a_plan_for_programs_lists_five_occurrences_before_and_after(
    rota: RunRota, seeded: str, registrations: str
) -> None:
    document = rota("tasks", "plan", registrations, "--store", seeded, "--json").document
    backup = document["tasks"][0]
    assert backup["standing"] == "changed"
    assert backup["changes"] == [
        {"field": "cronExpression", "before": "30 1 * * *", "after": "30 2 * * *"}
    ]
    assert len(backup["occurrences_before"]) == len(backup["occurrences_after"]) == 5
    assert backup["occurrences_before"][0] == "2027-03-27T01:30:00Z"
    assert backup["occurrences_after"][0] == "2027-03-27T02:30:00Z"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("planned_tasks", "write it as module:name"),
        ("no_such_module:tasks", "there is no module no_such_module"),
        ("planned_tasks:absent", "module planned_tasks has no absent"),
        ("planned_tasks:number", "it is neither a list nor a function"),
        ("planned_tasks:broken", "must have exactly 5 fields"),
    ],
)
@pytest.mark.usefixtures("registrations")
def test_registrations_that_cannot_be_used_are_refused_by_name(
    rota: RunRota, url: str, reference: str, reason: str
) -> None:
    outcome = rota("tasks", "plan", reference, "--store", url)
    assert outcome.status == 2
    assert reason in outcome.err


def test_why_explains_the_present_and_a_skipped_wall_time(rota: RunRota, seeded: str) -> None:
    now = rota("tasks", "why", "backup", "--store", seeded)
    assert now.out.splitlines()[0] == "backup: will run"
    assert "Its next occurrence is Sat 2027-03-27 01:30:00 GMT." in now.out
    skipped = rota("tasks", "why", "backup", "--at", "2027-03-28T01:30", "--store", seeded)
    assert skipped.out.splitlines() == [
        "backup: will not run",
        "- 2027-03-28 01:30 does not exist in Europe/London: the clocks go forward.",
        '- It would match "30 1 * * *"; an occurrence in a skipped hour is skipped that day.',
    ]


def test_why_answers_programs_too(rota: RunRota, seeded: str) -> None:
    document = rota("tasks", "why", "sync", "--store", seeded, "--json").document
    assert document["answer"] == "due"
    assert document["next_at"] == "2027-03-26T13:00:00Z"


def test_a_time_that_is_none_is_refused(rota: RunRota, seeded: str) -> None:
    outcome = rota("tasks", "why", "backup", "--at", "noon", "--store", seeded)
    assert outcome.status == 2
    assert '--at "noon"' in outcome.err


def test_a_requested_run_waits_for_a_scheduler(rota: RunRota, seeded: str) -> None:
    outcome = rota("tasks", "run-now", "backup", "--store", seeded)
    assert outcome.status == 0
    assert "starts when a scheduler does" in outcome.out
    document = rota("tasks", "run-now", "backup", "--store", seeded, "--json").document
    assert document == {"name": "backup", "scheduler_count": 0}
    waiting = use(seeded, lambda store: store.read(REQUESTS, ["backup"]))
    assert list(waiting) == ["backup"]


def test_a_task_is_paused_listed_as_paused_and_resumed(rota: RunRota, seeded: str) -> None:
    paused = rota("tasks", "pause", "backup", "--why", "disk full", "--store", seeded)
    assert (paused.status, paused.out) == (0, "Paused: backup starts no more.\n")
    listed = rota("tasks", "list", "--store", seeded).out.splitlines()[1]
    assert listed.split()[:2] == ["backup", "paused"]
    why = rota("tasks", "why", "backup", "--store", seeded).out
    assert why.startswith("backup: will not run\n")
    assert "(disk full). Nothing of it starts until it is resumed." in why
    resumed = rota("tasks", "resume", "backup", "--store", seeded)
    assert resumed.out == "Resumed: backup, next at Sat 2027-03-27 01:30.\n"
    assert "backup: will run" in rota("tasks", "why", "backup", "--store", seeded).out


def test_the_history_of_a_task_shows_lateness_and_outcome(rota: RunRota, seeded: str) -> None:
    run = TaskRun(
        scheduled_at=ENDED,
        started_at=ENDED + timedelta(minutes=2),
        ended_at=ENDED + timedelta(minutes=3),
        outcome="failed",
        reason="catch-up",
        error="OSError: disk full",
    )

    async def note(store: DocumentStore) -> None:
        history = RunHistory(store, 10)
        history.note("backup", run)
        await history.save()

    use(seeded, note)
    header, row, footer = rota("tasks", "history", "backup", "--store", seeded).out.splitlines()
    assert header.split()[:2] == ["Due", "Late"]
    assert row.split("  ")[1:3] == ["2m", "1m"] or "2m" in row
    assert "failed   catch-up  OSError: disk full" in row
    assert footer == "1 run of backup, 1 not successful"
    empty = rota("tasks", "history", "sync", "--store", seeded, "--json").document
    assert (empty["runs"], empty["policy"]) == ([], "declarative")


@pytest.mark.parametrize("command", ["why", "run-now", "pause", "resume", "history"])
def test_a_task_that_is_not_there_is_not_found(rota: RunRota, seeded: str, command: str) -> None:
    outcome = rota("tasks", command, "nobody", "--store", seeded)
    assert (outcome.status, outcome.out) == (3, "")
    assert 'No task is named "nobody"' in outcome.err


def test_the_store_is_taken_from_the_environment(
    rota: RunRota, seeded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE", seeded)
    assert len(rota("tasks", "list", "--json").document["items"]) == 3
