"""``rota cron``: when an expression is due, what it means, and a check of whole crontabs."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, BinaryIO

from cyclopts import App, Parameter
from rich.console import Console
from rich.text import Text

from rota.cli.occurrences import (
    END_OF_CALENDAR,
    EXPLAINED_COUNT,
    WEEKDAYS,
    Asked,
    Listing,
    Question,
    listing_document,
    make_listing,
    print_listing,
)
from rota.cli.options import CountOption, DialectOption, find_size, open_input
from rota.cli.output import (
    PLAIN,
    Output,
    Terminal,
    count_of,
    print_table,
    print_verbatim,
    reason_of,
    underline,
)
from rota.cli.progress import Bars
from rota.errors import InvalidCronExpressionError, InvalidZoneError
from rota.escape import escape
from rota.triggers.cron import Cron, Dialect, FieldCron, parse_cron, settle_zone
from rota.triggers.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    WEEKDAY,
    CronFields,
    FieldRange,
    numbers_in,
)
from rota.triggers.dst_notes import asked_by_cron
from rota.triggers.zone import load_zone

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip

_NAMES: dict[str, Callable[[int], str]] = {
    MONTH.name: lambda number: MONTHS[number - 1],
    WEEKDAY.name: lambda number: WEEKDAYS[number - 1],
}


def print_fields(console: Console, fields: CronFields) -> None:
    """Print one row per field; a field without restriction says so instead of a list."""
    found = ((field.name, _values(field, bits)) for field, bits in _list_fields(fields))
    print_table(console, [({"Field": name, "Values": values}, "") for name, values in found])


def fields_document(fields: CronFields) -> dict[str, list[int]]:
    """The values of every field as numbers; Sunday is 0."""
    return {field.name: numbers_in(bits) for field, bits in _list_fields(fields)}


def _list_fields(fields: CronFields) -> Iterator[tuple[FieldRange, int]]:
    """The fields in the order in which they are written; seconds only where they can differ."""
    if numbers_in(fields.seconds) != [0]:
        yield SECOND, fields.seconds
    yield MINUTE, fields.minutes
    yield HOUR, fields.hours
    yield DAY, fields.days
    yield MONTH, fields.months
    yield WEEKDAY, fields.weekdays


def _values(field: FieldRange, bits: int) -> str:
    if bits == field.all_bits:
        return f"every {field.name}"
    return ", ".join(map(_NAMES.get(field.name, str), numbers_in(bits)))


app = App(name="cron")

Expression = Annotated[str, Parameter(help='A cron expression in quotes, such as "0 9 * * 1-5".')]


@app.command(name="next")
def list_next(
    expression: Expression,
    /,
    *,
    count: CountOption = 10,
    dialect: DialectOption = "posix",
    asked: Asked = Asked(),
    output: Output = PLAIN,
) -> None:
    """List the next occurrences, in local time and UTC.

    A note says where a change of the clocks moves or repeats one, and a dim
    row where it skips one. Try:

        rota cron next "30 1 * * *" --zone Europe/London --from 2027-10-30 -n 4
        rota cron next "*/10 * * * *" --dialect extended --json
    """
    cron = _parse(expression, dialect)
    listing = _list(
        cron, asked.read(output.terminal, settle_zone(expression, asked.zone)[1]), count
    )
    document = _document(cron, dialect, listing.question)
    if not output.is_done({**document, **listing_document(listing)}):
        print_listing(output.terminal, cron.describe(), listing)


@app.command(name="explain")
def explain(
    expression: Expression,
    /,
    *,
    dialect: DialectOption = "posix",
    asked: Asked = Asked(),
    output: Output = PLAIN,
) -> None:
    """Say in words what an expression means, field by field.

    Try:

        rota cron explain "0 9 13 * 5"
        rota cron explain "@every 90m" --dialect extended
    """
    cron = _parse(expression, dialect)
    question = asked.read(output.terminal, settle_zone(expression, asked.zone)[1])
    listing = _list(cron, question, EXPLAINED_COUNT)
    fields = cron.fields if isinstance(cron, FieldCron) else None
    document = _document(cron, dialect, question) | {
        "fields": None if fields is None else fields_document(fields),
        "day_rule": None if fields is None else ("either" if fields.either else "both"),
    }
    if output.is_done({**document, **listing_document(listing)}):
        return
    terminal = output.terminal
    terminal.print_text(cron.describe(), "bold")
    terminal.print_text(f"Dialect: {dialect}\n", "dim")
    if fields is not None:
        print_fields(terminal.out, fields)
        terminal.print_text()
    if fields is not None and fields.either:
        terminal.print_text("A date counts when its day or its weekday matches.\n")
    print_listing(terminal, "Next three", listing)


def _parse(expression: str, dialect: Dialect) -> Cron:
    try:
        return parse_cron(expression, dialect)
    except InvalidCronExpressionError as error:
        if dialect != "extended" and is_extended(expression):
            error.add_note("The extended dialect allows it: --dialect extended")
        raise


def _list(cron: Cron, question: Question, count: int) -> Listing:
    """Up to ``count`` occurrences; CronCalculationError when there is not even one."""
    zone, after, gap, fold = question.chosen.zone, question.after, question.gap, question.fold
    first = cron.next_after(after, zone, gap=gap, fold=fold)
    rest = cron.between(first, END_OF_CALENDAR, zone, limit=count - 1, gap=gap, fold=fold)
    return make_listing([first, *rest], question, asked_by_cron(cron))


def _document(cron: Cron, dialect: Dialect, question: Question) -> dict[str, Any]:
    return {
        "expression": cron.text,
        "dialect": dialect,
        "description": cron.describe(),
        **question.to_document(),
    }


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


@app.command(name="check")
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
