"""``rota why``: what has become of a job, or will, and for which reasons."""

from typing import Annotated

from cyclopts import Parameter

from rota.cli.operating.options import JobArgument
from rota.cli.reading.instants import ask_about
from rota.cli.reading.options import GivenTerminal, JsonOption
from rota.cli.reading.place import NOWHERE, Place, converse
from rota.client.client import path_of
from rota.escape import escape

AtOption = Annotated[
    str | None,
    Parameter(
        metavar="INSTANT",
        help="Whether it, or its series, ran then or will: an ISO 8601 instant; without an offset "
        "a time on the clock of its series. Default: how it stands now.",
    ),
]


def why(
    job_id: JobArgument,
    /,
    *,
    at: AtOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Say what has become of a job, or will, for ``rota why``."""
    question = ask_about(at)
    told = converse(terminal, place, lambda it: it.get(path_of("jobs", job_id, "why"), question))
    if as_json:
        terminal.print_document(told)
        return
    terminal.print_text(escape(told["sentence"]), "bold")
    for reason in told["reasons"]:
        terminal.print_item(escape(reason["text"]))
