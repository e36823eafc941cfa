"""``rota``: finds the command, runs it, and turns what became of it into an exit status.

Commands are loaded when they are asked for, so that help is quick. A command returns False when
what it checked has problems, and raises when it could not do its work.
"""

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError
from rich.console import Console
from rich.text import Text

from rota import __version__
from rota.cli import help_texts
from rota.cli.rendering.failures import print_failure, print_message, print_usage_failure
from rota.cli.rendering.terminal import PipeConsole, Terminal, print_verbatim
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import (
    ConflictError,
    CronCalculationError,
    InvalidInputError,
    MissingExtraError,
    NoOccurrenceError,
    NotFoundError,
    RefusedError,
    RotaError,
    StoreError,
    WorkerWornOutError,
)

OK = 0
PROBLEMS = 1
BAD_INPUT = 2
MISSING = 69
INTERNAL = 70
OUTPUT_FAILED = 74
WORN_OUT = 75
INTERRUPTED = 130
PIPE_CLOSED = 141

EXIT_STATUSES: dict[type[RotaError], int] = {
    InvalidInputError: BAD_INPUT,
    NotFoundError: 3,
    CronCalculationError: 3,
    NoOccurrenceError: 3,
    ConflictError: 4,
    RefusedError: 5,
    StoreError: 6,
    MissingExtraError: MISSING,
    WorkerWornOutError: WORN_OUT,
}

SERVER_PACKAGES = ("httpx2", "jinja2", "prometheus_client", "starlette", "uvicorn")
"""What the extra ``rota[server]`` brings."""


app = App(name="rota", version=__version__, help=help_texts.ROTA, help_format="plaintext")
COMMANDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "Run it": (
        ("up", "running.up:up", help_texts.UP),
        ("demo", "running.demo:demo", help_texts.DEMO),
        ("serve", "running.serve:serve", help_texts.SERVE),
        ("work", "running.work:work", help_texts.WORK),
    ),
    "Look after it": (
        ("jobs", "operating.jobs:app", help_texts.JOBS),
        ("series", "operating.series:app", help_texts.SERIES),
        ("tasks", "tasks:app", help_texts.TASKS),
        ("dlq", "operating.dead_letters:app", help_texts.DEAD_LETTERS),
        ("gates", "operating.gates:app", help_texts.GATES),
        ("top", "running.top:top", help_texts.TOP),
        ("why", "operating.why:why", help_texts.WHY),
        ("check", "check:check", help_texts.CHECK),
        ("tokens", "tokens:app", help_texts.TOKENS),
        ("store", "store:app", help_texts.STORE),
    ),
    "Ask about schedules": (
        ("cron", "schedules.cron:app", help_texts.CRON),
        ("rrule", "schedules.rrule:app", help_texts.RRULE),
    ),
}
"""The commands under their headings, in the order in which they are met; each is loaded when it is
asked for."""

_BESIDES = "Besides"


def _arrange() -> None:
    for heading, commands in COMMANDS.items():
        group = Group.create_ordered(heading)
        for place, (name, path, text) in enumerate(commands):
            app.command(f"rota.cli.{path}", name=name, help=text, group=group, sort_key=place)
    besides = Group.create_ordered(_BESIDES)
    for flag in ("--help", "--version"):
        app[flag].group = (besides,)
    app.command(print_completion, name="completion", group=besides)


def print_completion(
    shell: Literal["bash", "zsh", "fish"],
    *,
    terminal: Annotated[Terminal, Parameter(parse=False)],
) -> None:
    """Print a script that completes rota's commands for a shell.

    Put its output where the shell finds it:

        rota completion bash > ~/.local/share/bash-completion/completions/rota
        rota completion zsh > ~/.zfunc/_rota
        rota completion fish > ~/.config/fish/completions/rota.fish
    """
    print_verbatim(terminal.out, Text(app.generate_completion(shell=shell).rstrip("\n")))


_arrange()


def run(
    argv: Sequence[str] | None = None,
    *,
    clock: Clock | None = None,
    out: Console | None = None,
    err: Console | None = None,
) -> int:
    """Run one command line, by default that of this process, and return its exit status."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    terminal = Terminal(
        clock if clock is not None else SystemClock(),
        out if out is not None else _standard_output(),
        err if err is not None else PipeConsole(highlight=False, markup=False, stderr=True),
    )
    try:
        status = _run_guarded(tokens, terminal)
        terminal.out.file.flush()
    except BrokenPipeError:
        _forget_output()
        return PIPE_CLOSED
    except OSError as error:
        _forget_output()
        print_message(terminal.err, f"the output cannot be written: {error.strerror}")
        return OUTPUT_FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run_guarded(tokens: list[str], terminal: Terminal) -> int:
    """Run the command; what goes wrong is printed, unless it is the printing."""
    as_json = "--json" in tokens
    try:
        return OK if _dispatch(tokens, terminal) else PROBLEMS
    except CycloptsError as error:
        print_usage_failure(terminal.err, _explain_usage(error), as_json=as_json)
        return BAD_INPUT
    except RotaError as error:
        print_failure(terminal.err, error, as_json=as_json)
        return _exit_status(error)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - the outermost frame: the status must tell a fault in rota from problems found by it
        terminal.err.file.write(traceback.format_exc())
        print_message(terminal.err, f"this is a fault in rota: {error}")
        return INTERNAL


def _dispatch(tokens: list[str], terminal: Terminal) -> bool:
    """Parse and call; whether all is well with what the command looked at."""
    try:
        return _call(tokens, terminal)
    except ImportError as error:
        name = _find_missing(error)
        if name not in SERVER_PACKAGES:
            raise
        raise MissingExtraError("Commands of the service", name, "server") from error


def _find_missing(error: BaseException | None) -> str:
    """The package that is not there: the command may have been told of it in other words."""
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return "" if error is None else (error.name or "").partition(".")[0]


def _call(tokens: list[str], terminal: Terminal) -> bool:
    command, bound, wanted = app.parse_args(
        tokens,
        console=terminal.out,
        error_console=terminal.err,
        print_error=False,
        exit_on_error=False,
    )
    offered = {"terminal": terminal, "console": terminal.out}
    result = command(*bound.args, **bound.kwargs, **{name: offered[name] for name in wanted})
    return result is not False


def _explain_usage(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        unused = " ".join(error.unused_tokens or ())
        return f"Unexpected: {unused}. Are quotes missing, or is an option misspelt?"
    return str(error)


def _exit_status(error: RotaError) -> int:
    for group, status in EXIT_STATUSES.items():
        if isinstance(error, group):
            return status
    return INTERNAL


def _standard_output() -> Console:
    """Standard output; what its encoding cannot write is written out as on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return PipeConsole(highlight=False, markup=False)


def _forget_output() -> None:
    """Nobody reads any more: what is still buffered must not fail again when Python exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
