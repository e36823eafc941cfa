"""``rota why``: what has become of a job, or will, and for which reasons."""

from rota.cli.operating.options import JobArgument
from rota.cli.reading.options import GivenTerminal, JsonOption
from rota.cli.reading.place import NOWHERE, Place, converse
from rota.client.client import path_of
from rota.escaping import escape


def why(
    job_id: JobArgument,
    /,
    *,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Say what has become of a job, or will, for ``rota why``."""
    told = converse(terminal, place, lambda it: it.get(path_of("jobs", job_id, "why")))
    if as_json:
        terminal.print_document(told)
        return
    terminal.print_text(escape(told["sentence"]), "bold")
    for reason in told["reasons"]:
        terminal.print_text(f"- {escape(reason['text'])}")
