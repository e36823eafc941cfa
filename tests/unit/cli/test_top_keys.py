"""The keys of ``rota top``: sort, filter, select, drill down, pause and quit."""

import os
import pty
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import RunRota

from rota.cli.top_keys import SORTS, Screen, name_keys, press


def a_queue(name: str, *, due: int = 0, dead: int = 0, late: float = 0.0) -> dict[str, Any]:
    counts = {"due_count": due, "dead_count": dead, "late_seconds": late}
    return {"queue": name, "later_count": 0, "running_count": 0, "stalled_count": 0, **counts}


QUEUES = [
    a_queue("mail", due=3, late=5.0),
    a_queue("reports", due=9, dead=1, late=60.0),
    a_queue("Mailing", due=9),
]


def names(screen: Screen) -> list[str]:
    return [str(it["queue"]) for it in screen.arrange(QUEUES)]


def after(*keys: str, screen: Screen | None = None) -> Screen:
    reached = screen or Screen()
    for key in keys:
        reached = press(reached, key, names(reached))
    return reached


@pytest.mark.parametrize(
    ("screen", "order"),
    [
        (Screen(), ["Mailing", "mail", "reports"]),
        (Screen(is_reversed=True), ["reports", "mail", "Mailing"]),
        (Screen(sort="due"), ["Mailing", "reports", "mail"]),
        (Screen(sort="dead"), ["reports", "Mailing", "mail"]),
        (Screen(sort="oldest", is_reversed=True), ["Mailing", "mail", "reports"]),
        (Screen(text="MAIL"), ["Mailing", "mail"]),
        (Screen(text="nothing"), []),
    ],
)
def test_queues_are_sorted_and_filtered(screen: Screen, order: list[str]) -> None:
    assert names(screen) == order


def test_sorting_goes_through_all_columns_and_selects_the_first() -> None:
    screen, seen = after("j"), []
    for _ in SORTS:
        screen = after("s", screen=screen)
        seen.append(screen.sort)
    assert seen == [*SORTS[1:], SORTS[0]]
    assert screen.selected == 0
    assert after("r").is_reversed


def test_the_selection_stays_within_the_list_and_enter_opens_it() -> None:
    assert after("k").selected == 0
    assert after("j", "down", "j", "j").selected == 2
    assert after("j", "enter").opened == "mail"
    assert after("j", "enter", "esc").opened is None
    assert after("j", "j", "up", "enter").opened == "mail"


def test_a_selection_beyond_a_list_that_became_shorter_means_its_last() -> None:
    screen = Screen(selected=9)
    assert press(screen, "enter", ["a", "b"]).opened == "b"
    assert press(screen, "enter", []).opened is None


def test_a_filter_takes_the_letters_that_are_commands_otherwise() -> None:
    screen = after("/", "s", "q", "p")
    assert (screen.text, screen.is_typing, screen.is_over, screen.is_paused) == (
        "sqp",
        True,
        False,
        False,
    )
    assert after("backspace", "enter", screen=screen).text == "sq"
    assert after("esc", screen=screen).text == ""
    assert after("up", screen=screen).text == "sqp"
    assert len(after("/", *"x" * 100).text) == 64


def test_pausing_quitting_and_keys_without_a_meaning() -> None:
    assert after("p").is_paused
    assert not after("p", " ").is_paused
    assert after("q").is_over
    assert after("z", "down", "k") == Screen()


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("jk", ["j", "k"]),
        ("\r\x7f\x1b", ["enter", "backspace", "esc"]),
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("\x1b[5~q", ["q"]),
        ("\x1b[", []),
        ("ä", ["ä"]),
    ],
)
def test_terminal_input_is_read_as_keys(sent: str, keys: list[str]) -> None:
    assert name_keys(sent) == keys


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], int]]:
    """Types on a terminal that is standard input."""
    keyboard, terminal = pty.openpty()
    with os.fdopen(terminal, "r", closefd=True) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda text: os.write(keyboard, text.encode())
    os.close(keyboard)


def test_a_queue_is_found_and_its_jobs_are_shown(
    rota: RunRota,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    type_in: Callable[[str], int],
) -> None:
    for name in ("ROTA_STORE", "ROTA_URL", "ROTA_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    for queue in ("mail", "reports"):
        rota("jobs", "create", f"job of {queue}", "--queue", queue)
    type_in("s/rep\r\rpq")
    shown = rota("top", width=120)
    assert shown.status == 0, shown.err
    assert "> mail" in shown.out
    assert "sorted by due" in shown.out
    assert "filter: rep_" in shown.out
    assert "The newest jobs of reports" in shown.out
    assert "job of reports" in shown.out
    assert "PAUSED" in shown.out
