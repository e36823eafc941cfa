"""Commands that read say that the store does not exist, and do not create it."""

from pathlib import Path

import pytest
from tests.unit.cli.conftest import RunRota

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
LOOKING = [
    ("jobs", "list"),
    ("jobs", "show", UNKNOWN),
    ("jobs", "cancel", UNKNOWN),
    ("series", "list"),
    ("dlq", "list"),
    ("dlq", "retry", "--all"),
    ("gates", "show"),
    ("gates", "quiet-hours", "--off"),
    ("tasks", "list"),
    ("tokens", "list"),
    ("workers",),
    ("audit",),
    ("top", "--once"),
    ("why", UNKNOWN),
]


@pytest.mark.parametrize("argv", LOOKING, ids=" ".join)
def test_looking_for_a_missing_store_creates_none(
    rota: RunRota, here: Path, argv: tuple[str, ...]
) -> None:
    outcome = rota(*argv)
    assert (outcome.status, outcome.out) == (6, "")
    assert outcome.err == (
        "error: There is no store at sqlite:///rota.db: rota up makes it, "
        "and so does rota store migrate\n"
    )
    assert list(here.iterdir()) == []


def test_on_a_terminal_top_does_not_make_one_either(rota: RunRota, here: Path) -> None:
    assert rota("top", width=100).status == 6
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "argv",
    [
        ("jobs", "create", "hello"),
        ("series", "create", "hello", "--every", "1m"),
        ("gates", "quiet-hours", "--start", "22:00", "--end", "07:00"),
        ("gates", "maintenance", "--reason", "moving"),
        ("tokens", "create", "ada", "--scope", "read"),
    ],
    ids=" ".join,
)
def test_commands_that_create_something_create_the_store(
    rota: RunRota, here: Path, argv: tuple[str, ...]
) -> None:
    assert rota(*argv).status == 0
    assert (here / "rota.db").exists()


@pytest.mark.parametrize("argv", [("jobs", "list"), ("check",), ("store", "status")], ids=" ".join)
def test_a_file_that_cannot_even_be_looked_for_is_a_store_that_is_not_available(
    rota: RunRota, argv: tuple[str, ...]
) -> None:
    """Its name is too long; of a folder that may not be entered the system says as much."""
    outcome = rota(*argv, "--store", f"sqlite:///{'x' * 300}.db")
    assert "is not available: the file cannot be " in outcome.out + outcome.err
    assert outcome.status != 74
