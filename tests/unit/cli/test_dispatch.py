import ast
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import pytest
from rich.console import Console
from tests.unit.cli.conftest import NOW, RunRota

from rota import __version__, cli, errors
from rota.cli import commands, dispatch
from rota.cli.dispatch import EXIT_STATUSES, run_command
from rota.testing import VirtualClock

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_help_lists_the_commands_and_teaches_by_example(rota: RunRota) -> None:
    outcome = rota("--help")
    assert outcome.status == 0
    assert 'rota cron next "0 9 * * 1-5" --zone Europe/London' in outcome.out
    for line in ("Cron expressions: when they are due", "Recurrence rules (RFC 5545)"):
        assert line in outcome.out


def test_every_command_is_listed_with_a_line_that_describes_it(rota: RunRota) -> None:
    listed = rota("--help", width=80).out.splitlines()
    for heading, listed_commands in commands.COMMANDS.items():
        assert any(line.startswith(f"╭─ {heading} ─") for line in listed)
        for name, _, text in listed_commands:
            (line,) = [line for line in listed if line.startswith(f"│ {name} ")]
            assert line.strip("│ ").removeprefix(name).strip() == text.splitlines()[0]


@pytest.mark.parametrize("words", [["rota demo", "rota up"], ["rota jobs create", "rota why"]])
def test_help_says_how_to_begin_and_how_to_continue(rota: RunRota, words: list[str]) -> None:
    lines = rota("--help").out.splitlines()
    places = [next(at for at, it in enumerate(lines) if f"    {word}" in it) for word in words]
    assert places == sorted(places)


COMMANDS = [
    (),
    ("cron",),
    ("cron", "next"),
    ("cron", "explain"),
    ("cron", "check"),
    ("rrule",),
    ("rrule", "next"),
    ("rrule", "explain"),
    ("plan",),
    ("import",),
    *[("import", it) for it in ("crontab", "celery", "apscheduler")],
    ("completion",),
    ("check",),
    ("store",),
    *[("store", it) for it in ("status", "migrate", "copy")],
    ("tasks",),
    *[("tasks", it) for it in ("list", "plan", "why", "run-now", "history", "pause", "resume")],
    ("up",),
    ("serve",),
    ("work",),
    ("demo",),
    ("top",),
    ("why",),
    ("workers",),
    ("audit",),
    ("jobs",),
    *[("jobs", it) for it in ("list", "show", "create", "update", "delete", "cancel", "retry")],
    ("jobs", "duplicate"),
    ("jobs", "run-now"),
    ("jobs", "bulk"),
    ("jobs", "bulk", "create"),
    ("jobs", "bulk", "act"),
    ("series",),
    *[("series", it) for it in ("list", "show", "create", "preview", "pause", "resume", "cancel")],
    *[("series", it) for it in ("run-now", "edit", "backfill", "calendar")],
    ("dlq",),
    *[("dlq", it) for it in ("list", "show", "retry", "discard")],
    ("gates",),
    *[("gates", it) for it in ("show", "quiet-hours", "maintenance", "kind")],
    ("tokens",),
    *[("tokens", it) for it in ("create", "list", "revoke")],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_fits_80_columns_and_has_an_example(
    rota: RunRota, command: tuple[str, ...]
) -> None:
    outcome = rota(*command, "--help", width=80)
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(f"    rota {' '.join(command)}") for line in lines)
    examples = [pair for pair in pairwise(lines) if pair[0].startswith("    rota ")]
    assert all(after == "" or after.startswith("    ") for _, after in examples), "broken in two"


def is_of_app(decorator: ast.expr) -> bool:
    return "app" in ast.unparse(decorator)


def test_no_line_of_a_command_s_help_is_broken_in_two() -> None:
    """A terminal of 80 columns shows the lines of a docstring as they are written."""
    long = [
        f"{path.name}: {line}"
        for path in Path(cli.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and any(map(is_of_app, node.decorator_list))
        for line in (ast.get_docstring(node) or "").splitlines()
        if len(line) > 79
    ]
    assert long == []


def test_without_a_command_the_help_is_shown(rota: RunRota) -> None:
    assert rota().out == rota("--help").out


def test_the_version_is_printed(rota: RunRota) -> None:
    assert rota("--version").out == f"{__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_knows_the_commands(rota: RunRota, shell: str) -> None:
    outcome = rota("completion", shell)
    assert outcome.status == 0
    for word in ("cron", "explain", "--zone" if shell != "fish" else "zone"):
        assert word in outcome.out


def test_zones_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["__complete", "cron", "next", "* * * * *", "--zone", "Europe/Lon"]) == 0
    assert "Europe/London" in capsys.readouterr().out.splitlines()


def test_a_bad_field_is_underlined(rota: RunRota) -> None:
    outcome = rota("cron", "next", "0 25 * * *")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        "error: invalid cron expression: hour field out of range (0-23)\n  0 25 * * *\n    ^^\n"
    )


def test_an_expression_of_another_dialect_is_pointed_out(rota: RunRota) -> None:
    assert rota("cron", "explain", "*/5 * * * *").err == (
        "error: invalid cron expression: minute field slash syntax not supported"
        " (POSIX violation)\n"
        "  */5 * * * *\n"
        "  ^^^\n"
        "The extended dialect allows it: --dialect extended\n"
    )


def test_control_characters_of_the_input_reach_no_terminal(rota: RunRota) -> None:
    for argv in (
        ("cron", "next", "0 \x1b[2J\u202e * * *"),
        ("cron", "next", "0 9 * * *", "--zone", "\x1b]0;title\x07"),
        ("cron", "next", "0 9 * * *", "--from", "\x9b2J"),
        ("cron", "next", "0 9 * * *", "--gap", "\x1b[2J"),
        ("cron\x1b[2J",),
        ("cron", "check", "\x1b[2J"),
    ):
        for flags in ((), ("--json",)):
            outcome = rota(*argv, *flags)
            assert outcome.status == 2
            shown = outcome.err.replace("\n", "")
            assert shown.isprintable(), shown


def test_errors_are_json_where_the_result_would_be(rota: RunRota) -> None:
    outcome = rota("cron", "next", "0 25 * * *", "--json")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.error == {
        "type": "InvalidCronExpressionError",
        "group": "invalid_input",
        "message": 'Invalid cron expression "0 25 * * *": hour field out of range (0-23)',
        "details": {
            "expression": "0 25 * * *",
            "field": "hour",
            "reason": "out of range (0-23)",
        },
        "position": [2, 4],
    }


def test_a_schedule_without_a_further_occurrence_is_not_found(rota: RunRota) -> None:
    outcome = rota("cron", "next", "0 0 1 1 *", "--zone", "UTC", "--from", "9999-06-01")
    assert outcome.status == 3
    assert outcome.err.startswith("error: Failed to calculate next occurrence")
    as_json = rota("cron", "next", "0 0 1 1 *", "--zone", "UTC", "--from", "9999-06-01", "--json")
    assert isinstance(as_json.error["details"]["cause"], str)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("crn",), 'Unknown command "crn". Did you mean "cron"?'),
        (("cron", "next", "* * * * *", "--zoe", "x"), "Unknown option: --zoe. Did you mean --zone"),
        (("cron", "next", "--zoe", "x", "* * * * *"), "Unknown option: --zoe."),
        (("cron", "next", "-1 * * * *"), "Unknown option: -1 * * * *."),
        (
            ("cron", "next", "0", "9", "*", "*", "1-5"),
            "Unexpected: 9 * * 1-5. Are quotes missing, or is an option misspelt?",
        ),
        (("cron", "check", "--jsno", "file"), "Unexpected: file. Are quotes missing, or is"),
        (("cron", "next"), "EXPRESSION is missing"),
        (("why",), "ID is missing"),
        (("store", "copy", "memory://"), "TARGET is missing"),
        (("tokens", "create", "ada"), "--scope is missing"),
        (("jobs", "list", "--limit"), "--limit needs a value"),
        (("cron", "next", "* * * * *", "-n", "0"), '-n "0" must be from 1 to 10000'),
        (("cron", "next", "* * * * *", "-n", "10001"), '-n "10001" must be from 1 to 10000'),
        (("cron", "next", "* * * * *", "--gap", "x"), '--gap "x" must be one of "skip", "shift"'),
    ],
)
def test_a_bad_command_line_is_explained(
    rota: RunRota, argv: tuple[str, ...], message: str
) -> None:
    outcome = rota(*argv)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: {message}")
    assert outcome.err.endswith("See --help.\n")
    as_json = rota(*argv, "--json")
    assert (as_json.status, as_json.error["group"]) == (2, "usage")
    assert as_json.error["message"].startswith(message)


def run_raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    def fail(*_arguments: object) -> NoReturn:
        raise error

    monkeypatch.setattr(dispatch, "_dispatch", fail)
    err = Console(file=io.StringIO(), width=80)
    status = run_command([], clock=VirtualClock(NOW), out=Console(file=io.StringIO()), err=err)
    assert isinstance(err.file, io.StringIO)
    return status, err.file.getvalue()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidInputError("x"), 2),
        (errors.NotFoundError("x"), 3),
        (errors.NoOccurrenceError("x"), 3),
        (errors.StaleVersionError("tasks", "a", 1), 4),
        (errors.RefusedError("x"), 5),
        (errors.StoreUnavailableError("x"), 6),
        (errors.MissingExtraError("x", "y", "server"), 69),
        (errors.WorkerWornOutError(10), 75),
        (errors.RotaError("x"), 70),
    ],
)
def test_the_exit_status_follows_from_the_group(
    error: errors.RotaError, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, printed = run_raising(error, monkeypatch)
    assert found == status
    assert printed == f"error: {error.message}\n"


def test_a_package_that_is_missing_is_named(rota: RunRota, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> NoReturn:
        raise ImportError("Cannot import") from ModuleNotFoundError(name="uvicorn.config")

    monkeypatch.setattr(dispatch, "_call", fail)
    outcome = rota("up")
    assert outcome.status == 69
    assert outcome.err == (
        "error: Commands of the service need uvicorn, which is not installed: "
        "pip install 'rota[server]'\n"
    )


def test_every_group_of_errors_has_an_exit_status() -> None:
    groups = {each for each in errors.RotaError.__subclasses__() if each.group != "error"}
    assert len(groups) == 5
    assert groups <= set(EXIT_STATUSES)


def test_an_interruption_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_raising(KeyboardInterrupt(), monkeypatch) == (130, "")


def test_an_internal_error_is_distinguished_from_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    status, printed = run_raising(ZeroDivisionError("oops"), monkeypatch)
    assert status == 70
    assert "Traceback" in printed
    assert printed.endswith("error: this is a fault in rota: oops\n")


def test_json_is_ascii_and_hides_no_control_character(rota: RunRota) -> None:
    outcome = rota("cron", "next", "0 9 * * *", "--zone", "caf\u00e9\x7f", "--json")
    assert outcome.err.isascii()
    assert "\x7f" not in outcome.err
    assert json.loads(outcome.err)["error"]["details"] == {"zone": "caf\u00e9\x7f"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("jobs", "create", "a", "--queue", "a/b"), "--queue must be 1 to 64 of"),
        (("jobs", "create", ""), "NAME must have 1 to 255 characters"),
        (("jobs", "create", "a", "--after", UNKNOWN), "--after names jobs that do not exist: "),
        (
            ("jobs", "create", "a", "--after", UNKNOWN, "--after", UNKNOWN),
            "--after must not name a job twice",
        ),
        (("jobs", "create", "a", "--priority", "x"), '--priority "x" must be a whole number'),
        (("jobs", "list", "--search", "x:y"), '--search has the field "x", which is not one of'),
        (("jobs", "list", "--tenant", ""), "--tenant is empty; name a tenant"),
        (("series", "create", "a", "--every", "1h", "--times", "0"), "--times must be from 1 to"),
        (("series", "create", "a", "--cron", "99 * * * *"), "--cron is refused: Invalid cron"),
        (("gates", "quiet-hours", "--start", "22:00", "--end", "7", "--day", "x"), "--end must be"),
        (("limits", "set", "--ageing", "5m"), "--ageing holds for a whole queue"),
        (("limits", "set", "--rate", "5/x"), '--rate "5/x" is not a rate; write a count and a'),
        (("retention", "set", "x=1d"), 'RULES: "x=1d" is not valid; write NAME=TIME'),
        (("cron", "next", "* * * * *", "--zone", "Europe/Pari"), "; did you mean Europe/Paris?"),
        (("check", "--late-after", "x"), '--late-after "x" must be a number'),
        (("work", "--queue", "a b"), "--queue must be 1 to 64 of"),
        (("work", "--tenant", "a b"), "--tenant must be 1 to 200 of"),
        (("completion",), "SHELL is missing"),
    ],
)
def test_a_refusal_names_the_option_that_was_typed(
    rota: RunRota,
    argv: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rota("store", "migrate")
    outcome = rota(*argv)
    assert (outcome.status, message in outcome.err) == (2, True), outcome.err


def test_programs_get_the_field_of_the_service(
    rota: RunRota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = rota("jobs", "create", "a", "--queue", "a/b", "--json").error
    assert error["details"]["field"] == "queue"
    assert error["message"].startswith("queue must be")


def test_an_address_in_the_environment_is_refused_by_its_variable(
    rota: RunRota, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_STORE", "foo")
    outcome = rota("jobs", "list")
    assert (outcome.status, "The variable ROTA_STORE has this address." in outcome.err) == (2, True)
    monkeypatch.setenv("ROTA_URL", "http://127.0.0.1:1")
    assert rota("jobs", "list").status == 6
