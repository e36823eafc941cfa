"""What a running service prints."""

import io
import json
import logging
from datetime import UTC, datetime

import pytest
from rich.console import Console

from rota.cli.event_lines import reporting
from rota.cli.output import Terminal
from rota.events import AlertRaised, EventEmitter
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LOG = logging.getLogger("rota.server")


def break_down(said: str) -> None:
    raise ValueError(said)


def fail(said: str) -> None:
    try:
        break_down(said)
    except ValueError as error:
        LOG.error("Request failed, incident %s", 7, exc_info=error)  # noqa: TRY400 - as the server


def hear(said: str, *, as_json: bool) -> list[str]:
    heard = io.StringIO()
    console = Console(file=heard, width=80)
    with reporting(Terminal(VirtualClock(NOW), console, console), as_json=as_json):
        fail(said)
    return heard.getvalue().splitlines()


def test_an_unexpected_error_shows_where_it_came_from() -> None:
    first, *rest = hear("colour", as_json=False)
    assert first == "12:00:00Z  Request failed, incident 7"
    assert rest[0].strip() == "Traceback (most recent call last):"
    assert rest[-1].strip() == "ValueError: colour"
    assert any("in break_down" in line for line in rest)


@pytest.mark.parametrize("as_json", [False, True])
def test_an_error_cannot_forge_a_log_line(*, as_json: bool) -> None:
    lines = hear("x\n12:00:00Z  all is well\x1b[2J", as_json=as_json)
    assert not any(line.startswith("12:00:00Z  all is well") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_as_json_it_is_one_line() -> None:
    (line,) = hear("colour", as_json=True)
    found = json.loads(line)
    assert found["message"] == "Request failed, incident 7"
    assert found["exception"].endswith("ValueError: colour")


def test_an_alert_is_one_line() -> None:
    heard = io.StringIO()
    console = Console(file=heard, width=80)
    events = EventEmitter("rota.watch")
    with reporting(Terminal(VirtualClock(NOW), console, console), as_json=False) as reporter:
        assert reporter.listen is not None
        events.subscribe(reporter.listen)
        events.emit(AlertRaised(concern="late", source="task", alert_name="a", text="a is late"))
    assert heard.getvalue().splitlines() == ["12:00:00Z  alert: a is late"]
