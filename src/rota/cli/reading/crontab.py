"""A crontab, line by line: what each line says, and what is wrong with it.

Blank lines, comments and ``NAME=value`` settings are understood; ``CRON_TZ`` must name a zone.
Every other line is five fields, or a macro of the extended dialect, and then a command.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rota.cli.rendering.failures import reason_of
from rota.errors import InvalidCronExpressionError, InvalidZoneError
from rota.triggers.parse import Dialect, parse_cron
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
