"""An example to look at, and the screen to look at it with."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.cli.conftest import NOW, RunRota

from rota import Worker, open_store
from rota.telemetry.stats_recorder import StatsRecorder
from rota.testing import VirtualClock
from rota.worker import Context


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ROTA_STORE", "ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_has_some_of_everything_and_is_filled_in_once(rota: RunRota) -> None:
    assert rota("demo").out.startswith("142 jobs created, 0 were there already.")
    again = rota("demo", "--json").document
    assert again == {"created_count": 0, "existing_count": 142}
    assert rota("series", "list").out.splitlines()[-1] == "5 series"
    pending = rota("jobs", "list", "--state", "pending", "--json").document["items"]
    assert len(pending) == 7
    for tenant in ("guild-7", "guild-9"):
        reminders = rota("jobs", "list", "--tenant", tenant, "--json").document["items"]
        assert len(reminders) == 4
    assert "Quiet from 22:00" in rota("gates", "show", "--tenant", "guild-9").out


def test_the_next_step_names_the_store_unless_it_is_the_default(rota: RunRota) -> None:
    line = rota("demo").out.splitlines()[-1]
    assert line == "See them run: rota up. Watch them meanwhile: rota top."
    line = rota("demo", "--store", "sqlite:///other.db").out.splitlines()[-1]
    assert line == (
        "See them run: rota up --store sqlite:///other.db. "
        "Watch them meanwhile: rota top --store sqlite:///other.db."
    )


def test_everything_in_the_example_is_of_a_built_in_kind(rota: RunRota) -> None:
    rota("demo")
    items = rota("jobs", "list", "--limit", "1000", "--json").document["items"]
    assert {item["kind"] for item in items} == {"log.message", "http.request"}


def test_a_bar_shows_how_far_the_example_is(rota: RunRota) -> None:
    assert "Creating" in rota("demo", width=80).err


def test_top_shows_queues_alarms_and_what_comes_next(rota: RunRota) -> None:
    rota("demo")
    shown = rota("top", "--once", width=80)
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].rstrip() == "Fri 2027-03-26 12:00:30  sqlite:///rota.db"
    assert lines[1].startswith("workers 0  running 0  ready 127  pending 7")
    assert any(line.startswith("! ") for line in lines)
    assert any(line.split()[:2] == ["mail", "1"] for line in lines)
    assert any("Morning digest" in line for line in lines)


def test_top_on_an_empty_store_and_in_a_pipe_looks_once(rota: RunRota) -> None:
    rota("store", "migrate")
    shown = rota("top")
    assert shown.status == 0
    assert "workers 0  running 0  ready 0" in shown.out
    document = rota("top", "--json").document
    assert (document["workers"], document["counts"]["READY"]) == ([], 0)


def test_names_reach_no_terminal_as_they_are(rota: RunRota) -> None:
    rota("series", "create", "[red]bold[/red]", "--every", "1m")
    shown = rota("top", "--once").out
    assert "[red]bold[/red]" in shown
    assert shown.replace("\n", "").isprintable()


async def work_a_little() -> None:
    """Two jobs are done, one fails; and what was counted is written."""
    clock = VirtualClock(NOW)

    async def work(context: Context) -> None:
        if context.payload.get("fails"):
            raise ValueError("out of paper")

    async with await open_store("sqlite:///rota.db") as store:
        worker, recorder = Worker(store, {"print": work}, clock=clock), StatsRecorder(store, clock)
        recorder.follow(worker.events)
        await worker.run_once()
        await recorder.flush()


def test_top_shows_the_last_minutes_at_once(rota: RunRota) -> None:
    for payload in ("{}", "{}", '{"fails": true}'):
        rota("jobs", "create", "print", "--payload", payload, "--max-attempts", "1")
    asyncio.run(work_a_little())
    lines = rota("top", "--once", width=80).out.splitlines()
    assert lines[2].rstrip() == "last 10 min  succeeded 2  failed 1  dead 1  0.3/min"
    assert lines[3].rstrip() == "waited 0.0ms (95%: 0.0ms); took 0.0ms (95%: 0.0ms)"
    alarm = "! default: 1 dead letter: the job failed its last attempt"
    assert lines[4].rstrip() == alarm
    throughput = rota("top", "--json").document["throughput"]
    assert [it["failed"] for it in throughput["minutes"]] == [1]
    assert throughput["since"] == "2027-03-26T11:50:30Z"


def test_alarms_do_not_fill_the_screen(rota: RunRota) -> None:
    for number in range(8):
        rota("jobs", "create", "print", "--queue", f"q{number}")
    lines = rota("top", "--once", width=80).out.splitlines()
    alarms = [line.rstrip() for line in lines if line.startswith("!")]
    assert (len(alarms), alarms[-1]) == (7, "! and 2 more")
    assert alarms[0] == "! q0: 1 job is due, and no worker takes from the queue"
