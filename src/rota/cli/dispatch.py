"""Finds and runs a command, and turns the result into an exit status.

A command returns False when what it checked has problems, or the exit status itself, and raises
when it cannot do its work.
"""

import gc
import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import (
    Argument,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnusedCliTokensError,
    ValidationError,
)
from rich.console import Console

from rota.cli.commands import app
from rota.cli.output import (
    Output,
    Terminal,
    make_terminal,
    print_failure,
    print_message,
    print_usage_failure,
    summarise,
)
from rota.clock.protocol import Clock
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


def run_command(
    tokens: Sequence[str],
    *,
    clock: Clock | None = None,
    out: Console | None = None,
    err: Console | None = None,
) -> int:
    """Run one command line and return its exit status."""
    terminal = make_terminal(clock, out, err)
    try:
        status = _run_guarded(list(tokens), terminal)
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
    """Run the command and print its error, unless writing the output failed."""
    as_json = "--json" in tokens
    try:
        return _dispatch(tokens, terminal)
    except CycloptsError as error:
        print_usage_failure(terminal.err, _explain_usage(error), as_json=as_json)
        return BAD_INPUT
    except RotaError as error:
        print_failure(terminal.err, error, _name_option(error, tokens), as_json=as_json)
        return _exit_status(error)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - the outermost frame: a fault in rota has its own exit status
        terminal.err.file.write(traceback.format_exc())
        print_message(terminal.err, f"this is a fault in rota: {error}")
        return INTERNAL


def _dispatch(tokens: list[str], terminal: Terminal) -> int:
    """Parse the command line and call the command. Returns the exit status."""
    try:
        return _call(tokens, terminal)
    except ImportError as error:
        name = _find_missing(error)
        if name not in SERVER_PACKAGES:
            raise
        raise MissingExtraError("Commands of the service", name, "server") from error


def _find_missing(error: BaseException | None) -> str:
    """The name of the missing package, also when another error hides it."""
    while error is not None and not isinstance(error, ModuleNotFoundError):
        error = error.__cause__
    return "" if error is None else (error.name or "").partition(".")[0]


def _call(tokens: list[str], terminal: Terminal) -> int:
    command, bound, wanted = app.parse_args(
        tokens,
        console=terminal.out,
        error_console=terminal.err,
        print_error=False,
        exit_on_error=False,
    )
    for name, parameter in bound.signature.parameters.items():
        chosen = bound.arguments.get(name, parameter.default)
        if isinstance(chosen, Output):
            bound.arguments[name] = chosen.on(terminal)
    _collect_garbage()
    offered = {"terminal": terminal, "console": terminal.out}
    result = command(*bound.args, **bound.kwargs, **{name: offered[name] for name in wanted})
    if type(result) is int:
        return result
    return PROBLEMS if result is False else OK


def _collect_garbage() -> None:
    """Collect garbage from now on, if the program has not done so while it loaded itself.

    What is loaded lives as long as the process, and is never searched.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _explain_usage(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        unused = " ".join(error.unused_tokens or ())
        return f"Unexpected: {unused}. Are quotes missing, or is an option misspelt?"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return _explain_missing(error, error.argument)
    if isinstance(error, ValidationError | CoercionError) and error.argument is not None:
        return _explain_value(error, error.argument)
    return str(error)


def _explain_value(error: ValidationError | CoercionError, argument: Argument) -> str:
    """The option or argument, the value that was typed, and what would be right."""
    token = next(iter(argument.tokens), None)
    reason = error.exception_message if isinstance(error, ValidationError) else str(error)
    if isinstance(error, CoercionError):
        token = error.token or token
        choices = reason.partition(". Choose from: ")[2].removesuffix(".")
        wanted = f"one of {choices}" if choices else _NUMBERS.get(error.target_type)
        reason = reason if wanted is None else f"must be {wanted}"
    if token is None or not reason.startswith("must "):
        return str(error)
    return f'{token.keyword or argument.name.lstrip("-").upper()} "{token.value}" {reason}'


_NUMBERS: dict[type | None, str] = {int: "a whole number", float: "a number"}


def _explain_missing(error: MissingArgumentError, argument: Argument) -> str:
    """What is missing: an argument, an option, or the value of an option."""
    text = str(error)
    if "Did you mean" in text:
        return text
    if argument.tokens or error.keyword is not None:
        option = next((it.keyword for it in argument.tokens if it.keyword), error.keyword)
        return f"{option or argument.name} needs a value"
    name = argument.name
    if argument.field_info.is_positional:
        name = argument.parameter.metavar or name.lstrip("-").upper()
    return f"{name} is missing"


def _name_option(error: RotaError, tokens: list[str]) -> str:
    """The message, with the option that was typed where the service names its own field."""
    message, field = summarise(error), error.details.get("field")
    if not isinstance(field, str) or not message.startswith(field):
        return message
    name = field.removeprefix("recurrence.").removeprefix("retry_policy.")
    name = name.partition("[")[0].replace("_", "-")
    arguments = app.parse_commands(tokens)[1][-1].assemble_argument_collection()
    known = {name for argument in arguments for name in argument.names}
    for option in (_OPTIONS.get(name, f"--{name}"), name.upper()):
        if option in known:
            rest = message.removeprefix(field)
            is_plural = rest.startswith(" name ")  # the field is, the option is one of several
            return option + (rest.replace("name", "names", 1) if is_plural else rest)
    return message


_OPTIONS = {
    "ageing-seconds": "--ageing",
    "count": "--times",
    "dependencies": "--after",
    "due-at": "--run-at",
    "idempotency-key": "--key",
    "interval": "--every",
    "q": "--search",
    "weekdays": "--day",
}
"""Fields of the service that have other names on the command line."""


def _exit_status(error: RotaError) -> int:
    for group, status in EXIT_STATUSES.items():
        if isinstance(error, group):
            return status
    return INTERNAL


def _forget_output() -> None:
    """Discard buffered output, so that it does not fail again when Python exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
