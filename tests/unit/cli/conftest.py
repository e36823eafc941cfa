import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from rota.cli.dispatch import run_command
from rota.testing import VirtualClock

NOW = datetime(2027, 3, 26, 12, 0, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Outcome:
    """What one command line did."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


RunRota = Callable[..., Outcome]


@pytest.fixture
def rota(monkeypatch: pytest.MonkeyPatch) -> RunRota:
    """Runs command lines at a fixed instant; with a width, as on a terminal that wide."""
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: "Europe/London")

    def run_rota(*argv: str, width: int | None = None) -> Outcome:
        consoles = [
            Console(
                file=io.StringIO(),
                width=width or 80,
                force_terminal=width is not None,
                color_system=None,
                legacy_windows=False,
            )
            for _ in range(2)
        ]
        out, err = consoles
        status = run_command(argv, clock=VirtualClock(NOW), out=out, err=err)
        return Outcome(status, *(_text(console) for console in consoles))

    return run_rota


def _text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
