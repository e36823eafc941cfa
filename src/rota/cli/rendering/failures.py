"""An error as a person or a program wants it."""

from typing import Any

from rich.console import Console
from rich.text import Text

from rota.cli.rendering.carets import underline
from rota.cli.rendering.terminal import print_json, print_prose, print_verbatim
from rota.errors import (
    InvalidCronExpressionError,
    InvalidRecurrenceRuleError,
    InvalidTriggerError,
    RotaError,
)
from rota.escape import escape


def print_failure(console: Console, error: RotaError, *, as_json: bool) -> None:
    """Print what is wrong; a bad trigger is shown with carets under the bad part."""
    if as_json:
        print_json(console, {"error": _error_document(error)})
        return
    print_message(console, summarise(error))
    if isinstance(error, InvalidTriggerError):
        print_verbatim(console, underline(error.text, error.position))
    for remark in getattr(error, "__notes__", ()):
        print_prose(console, Text(escape(remark)))


def summarise(error: RotaError) -> str:
    """The message; that of a bad trigger without its text, which is shown below it."""
    match error:
        case InvalidCronExpressionError():
            return f"invalid cron expression: {reason_of(error)}"
        case InvalidRecurrenceRuleError():
            return f"invalid recurrence rule: {error.part} {error.reason}"
    return error.message


def reason_of(error: InvalidCronExpressionError) -> str:
    """Why an expression was refused, and because of which field, if it is one alone."""
    return error.reason if error.field == "expression" else f"{error.field} field {error.reason}"


def print_usage_failure(console: Console, message: str, *, as_json: bool) -> None:
    """Print what is wrong with the command line itself."""
    if as_json:
        document = {"type": "UsageError", "group": "usage", "message": message, "details": {}}
        print_json(console, {"error": document})
        return
    print_message(console, message)
    print_prose(console, Text("Ask --help for what is possible.", "dim"))


def print_message(console: Console, message: str) -> None:
    print_prose(console, Text.assemble(("error: ", "bold red"), escape(message)))


def _error_document(error: RotaError) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": type(error).__name__,
        "group": error.group,
        "message": error.message,
        "details": {name: _plain(value) for name, value in error.details.items()},
    }
    if isinstance(error, InvalidTriggerError):
        document["position"] = list(error.position)
    return document


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
