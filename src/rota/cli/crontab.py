"""``rota cron check``: checks each line of a crontab."""

import re
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, BinaryIO

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from rota.cli.arguments import find_size, open_input
from rota.cli.options import DialectOption
from rota.cli.output import PLAIN, Output, Terminal, count_of, print_verbatim, reason_of, underline
from rota.cli.progress import Bars
from rota.errors import InvalidCronExpressionError, InvalidZoneError
from rota.escape import escape
from rota.triggers.cron import Dialect, parse_cron
from rota.triggers.zone import load_zone

_SETTING = re.compile(r"""\s*(?P<q>["']?)(?P<name>[A-Za-z_]\w*)(?P=q)\s*=\s*(?P<value>.*?)\s*$""")
_WORD = re.compile(r"[^ \t]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a line; ``start`` and ``end`` are the half-open span in ``text``."""

    line: int
    start: int
    end: int
    reason: str
    text: str

    @property
    def column(self) -> int:
        return self.start + 1

    def to_document(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "column": self.column,
            "end_column": self.end + 1,
            "reason": self.reason,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in a whole file."""

    line_count: int
    schedule_count: int
    problems: tuple[Problem, ...]

    def to_document(self) -> dict[str, Any]:
        return {
            "line_count": self.line_count,
            "schedule_count": self.schedule_count,
            "problem_count": len(self.problems),
            "problems": [problem.to_document() for problem in self.problems],
        }


@dataclass(frozen=True, slots=True)
class CrontabForm:
    """How a file is written: its dialect, and whether a command follows each expression."""

    dialect: Dialect = "posix"
    has_commands: bool = True


def check_lines(lines: Iterable[str], form: CrontabForm) -> Findings:
    """Check line after line; one bad line never hides another."""
    number = schedule_count = 0
    problems: list[Problem] = []
    for number, ended in enumerate(lines, start=1):
        line = ended.rstrip("\r\n")
        setting = _SETTING.match(line)
        if _says_nothing(line):
            continue
        if setting is not None:
            problems.extend(_check_setting(number, line, setting))
        else:
            schedule_count += 1
            problems.extend(_check_entry(number, line, form))
    return Findings(number, schedule_count, tuple(problems))


def is_extended(expression: str) -> bool:
    """Whether the extended dialect understands this."""
    try:
        parse_cron(expression, "extended")
    except InvalidCronExpressionError:
        return False
    return True


def _says_nothing(line: str) -> bool:
    text = line.lstrip(" \t")
    return not text or text.startswith("#")


def _check_setting(number: int, line: str, setting: re.Match[str]) -> Iterator[Problem]:
    if setting["name"] != "CRON_TZ":
        return
    zone = setting["value"]
    start, end = setting.span("value")
    if len(zone) >= 2 and zone[0] == zone[-1] and zone[0] in "\"'":
        zone, start, end = zone[1:-1], start + 1, end - 1
    try:
        load_zone(zone)
    except InvalidZoneError as error:
        yield Problem(number, start, end, error.message, line)


def _check_entry(number: int, line: str, form: CrontabForm) -> Iterator[Problem]:
    start, end = _schedule_span(line) if form.has_commands else (0, len(line))
    expression = line[start:end]
    try:
        parse_cron(expression, form.dialect)
    except InvalidCronExpressionError as error:
        reason = reason_of(error)
        if form.dialect != "extended" and is_extended(expression):
            reason += "; the extended dialect allows it"
        bad_start, bad_end = error.position
        yield Problem(number, start + bad_start, start + bad_end, reason, line)
    else:
        if form.has_commands and not line[end:].strip(" \t"):
            yield Problem(number, len(line), len(line), "no command after the schedule", line)


def _schedule_span(line: str) -> tuple[int, int]:
    """Where the expression stands in a line that goes on with a command."""
    words = [match.span() for match in islice(_WORD.finditer(line), 5)]
    first = line[slice(*words[0])]
    word_count = 5
    if first.startswith("@"):
        word_count = 2 if first == "@every" else 1
    return words[0][0], words[:word_count][-1][1]


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
        bool, Parameter(negative="--no-command", help="Whether a command follows each expression.")
    ] = True,
    output: Output = PLAIN,
) -> bool:
    """Check every line of a crontab; exit status 1 if any is bad.

    Blank lines, comments and NAME=value settings are fine; CRON_TZ must name
    a time zone. Try:

        rota cron check /etc/crontab --dialect extended
        crontab -l | rota cron check -
        rota cron check expressions.txt --no-command --json
    """
    form = CrontabForm(dialect, has_commands=command)
    with open_input(file) as source:
        findings = check_lines(_read_lines(source, output.terminal.err), form)
    if not output.is_done({"file": file, "dialect": dialect, **findings.to_document()}):
        _print_findings(output.terminal, file, findings)
    return not findings.problems


def _read_lines(source: BinaryIO, console: Console) -> Iterator[str]:
    """The lines, with a progress bar if that takes long and someone is watching.

    Bytes that are not UTF-8 are kept, and shown escaped.
    """
    size = find_size(source) or 0
    is_shown = size >= WORTH_A_PROGRESS_BAR and console.is_terminal
    with Bars(console, is_transient=True) if is_shown else nullcontext() as bars:
        read = 0
        for number, line in enumerate(source):
            yield line.decode("utf-8", "surrogateescape")
            read += len(line)
            if bars is not None and number % LINES_PER_STEP == 0:
                bars.update(bars.find_bar("Checking", size), completed=read)


def _print_findings(terminal: Terminal, file: str, findings: Findings) -> None:
    for problem in findings.problems:
        _print_problem(terminal, file, problem)
    counts = (
        count_of(findings.line_count, "line"),
        count_of(findings.schedule_count, "schedule"),
        count_of(len(findings.problems), "problem"),
    )
    style = "bold red" if findings.problems else "green"
    terminal.print_text(f"{escape(file)}: {', '.join(counts)}", style)


def _print_problem(terminal: Terminal, file: str, problem: Problem) -> None:
    place = f"{escape(file)}:{problem.line}:{problem.column}:"
    terminal.print_text(Text.assemble((place, "bold"), f" {escape(problem.reason)}"))
    print_verbatim(terminal.out, underline(problem.text, (problem.start, problem.end)))
