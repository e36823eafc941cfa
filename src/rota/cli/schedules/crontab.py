"""``rota cron check``: every line of a crontab, for people and for CI."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

from cyclopts import Parameter
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from rota.cli.reading.crontab import CrontabForm, Findings, Problem, check_lines
from rota.cli.reading.options import DialectOption, GivenTerminal, JsonOption
from rota.cli.rendering.carets import underline
from rota.cli.rendering.terminal import Terminal, print_verbatim
from rota.errors import InvalidInputError
from rota.escape import escape

WORTH_A_PROGRESS_BAR = 1_000_000
"""Bytes: a smaller file is checked before a bar could be read."""

LINES_PER_STEP = 1000


def check(
    file: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The crontab, or - for standard input.")
    ],
    /,
    *,
    dialect: DialectOption = "posix",
    command: Annotated[
        bool,
        Parameter(negative="--no-command", help="Whether a command follows each expression."),
    ] = True,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> bool:
    """Check every line of a crontab; exit status 1 if any is bad.

    Blank lines, comments and NAME=value settings are fine; CRON_TZ must name
    a time zone. Try:

        rota cron check /etc/crontab --dialect extended
        crontab -l | rota cron check -
        rota cron check expressions.txt --no-command --json
    """
    form = CrontabForm(dialect, has_commands=command)
    with _open(file) as source:
        lines = _with_progress(_read_lines(source, file), _size_of(source), terminal.err)
        findings = check_lines(lines, form)
    if as_json:
        terminal.print_document({"file": file, "dialect": dialect, **findings.to_document()})
    else:
        _print_findings(terminal, file, findings)
    return not findings.problems


@contextmanager
def _open(file: str) -> Iterator[TextIO]:
    """The file, or standard input; bytes that are no UTF-8 are kept, to be shown as such."""
    if file == "-":
        source = io.TextIOWrapper(sys.stdin.buffer, "utf-8", "surrogateescape", newline="\n")
        try:
            yield source
        finally:
            source.detach()
        return
    try:
        source = Path(file).open(encoding="utf-8", errors="surrogateescape", newline="\n")  # noqa: SIM115 - closed below; only a failure to open is translated
    except OSError as error:
        raise _unreadable(file, error) from error
    with source:
        yield source


def _read_lines(source: TextIO, file: str) -> Iterator[str]:
    try:
        for line in source:  # noqa: UP028 - "yield from" would close the source along with this
            yield line
    except OSError as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: OSError) -> InvalidInputError:
    reason = error.strerror or str(error)
    return InvalidInputError(f'Cannot read "{file}": {reason}', {"file": file, "reason": reason})


def _size_of(source: TextIO) -> int:
    """How many bytes there are to read; 0 where nobody can know."""
    try:
        return os.fstat(source.fileno()).st_size
    except OSError:
        return 0


def _with_progress(lines: Iterator[str], size: int, console: Console) -> Iterator[str]:
    """Hand on the lines; while that takes long and someone is watching, say how far it is."""
    if size < WORTH_A_PROGRESS_BAR or not console.is_terminal:
        yield from lines
        return
    bar = Progress(console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    with bar:
        task = bar.add_task("Checking", total=size)
        read = 0
        for number, line in enumerate(lines):
            yield line
            read += len(line)
            if number % LINES_PER_STEP == 0:
                bar.update(task, completed=read)


def _print_findings(terminal: Terminal, file: str, findings: Findings) -> None:
    for problem in findings.problems:
        _print_problem(terminal, file, problem)
    counts = (
        _count(findings.line_count, "line"),
        _count(findings.schedule_count, "schedule"),
        _count(len(findings.problems), "problem"),
    )
    style = "bold red" if findings.problems else "green"
    terminal.print_text(f"{escape(file)}: {', '.join(counts)}", style)


def _print_problem(terminal: Terminal, file: str, problem: Problem) -> None:
    place = f"{escape(file)}:{problem.line}:{problem.column}:"
    terminal.print_text(Text.assemble((place, "bold"), f" {escape(problem.reason)}"))
    print_verbatim(terminal.out, underline(problem.text, (problem.start, problem.end)))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
