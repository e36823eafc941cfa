"""An example to look at, and the screen to look at it with."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import NOW, RunRota

from rota.cli.rendering.live.top import Look, measure_rate


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
    pending = rota("jobs", "list", "--status", "PENDING", "--json").document["items"]
    assert len(pending) == 7
    for tenant in ("guild-7", "guild-9"):
        reminders = rota("jobs", "list", "--tenant", tenant, "--json").document["items"]
        assert len(reminders) == 4
    assert "Quiet from 22:00" in rota("gates", "show", "--tenant", "guild-9").out


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


def look(second: int, completed: int) -> Look:
    overview: dict[str, Any] = {
        "taken_at": f"2027-03-26T12:00:{second:02}Z",
        "counts": {"COMPLETED": completed, "FAILED": 1},
    }
    return Look(overview, [])


def test_how_fast_jobs_end_is_measured_between_two_looks() -> None:
    assert NOW.year == 2027
    assert measure_rate(None, look(0, 10)) is None
    assert measure_rate(look(0, 10), look(2, 30)) == 10
    assert measure_rate(look(0, 10), look(2, 4)) == 0
    assert measure_rate(look(2, 10), look(2, 30)) is None
