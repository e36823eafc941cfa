"""``rota import``: schedules of cron, Celery and APScheduler become tasks of an app.

Writes the program that has them, and compares every run of two years with the originals.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.import_apscheduler import read_apscheduler
from rota.cli.import_celery import read_celery
from rota.cli.import_crontab import read_crontab
from rota.cli.import_rule import DAY, Imported, ImportedSchedule, IntervalRule, Unreadable, utc
from rota.cli.options import STANDARD, ZoneOption, choose_zone, flag, open_input
from rota.cli.output import GivenTerminal, Terminal, count_of
from rota.errors import InvalidInputError, invalid
from rota.escape import escape
from rota.jobs import Recurrence, make_trigger
from rota.triggers.cron import CronTrigger
from rota.triggers.rrule import RecurrenceRule
from rota.triggers.zone import instants_of, transitions_between

app = App(name="import")

_FileArgument = Annotated[
    str, Parameter(metavar="FILE", allow_leading_hyphen=True, help="The file, or - for input.")
]
_OutOption = Annotated[
    str,
    Parameter(
        metavar="FILE", allow_leading_hyphen=True, help="Where to write the program; - prints it."
    ),
]


@app.command(name="crontab")
def import_crontab(
    file: _FileArgument,
    /,
    *,
    out: _OutOption = "tasks.py",
    zone: ZoneOption = None,
    system: Annotated[bool, flag("A user follows the five fields, as in /etc/crontab.")] = False,
    terminal: GivenTerminal,
) -> None:
    """Import a crontab, as cron runs it in --zone.

    Prints every fire of the next two years that would differ, and why. Try:

        rota import crontab /etc/crontab --system --zone Europe/London
    """
    imported = read_crontab(_read(file), choose_zone(zone).zone, has_users=system)
    _finish(terminal, imported, file, out)


@app.command(name="celery")
def import_celery(
    file: _FileArgument,
    /,
    *,
    out: _OutOption = "tasks.py",
    zone: ZoneOption = None,
    terminal: GivenTerminal,
) -> None:
    """Import a beat schedule from Python source, which is not run, or from JSON.

    The zone is the one that the file names, or UTC. Try:

        rota import celery proj/celery.py --out -
    """
    chosen = None if zone is None else choose_zone(zone).zone
    _finish(terminal, read_celery(_read(file), chosen), file, out)


@app.command(name="apscheduler")
def import_apscheduler(
    file: _FileArgument,
    /,
    *,
    out: _OutOption = "tasks.py",
    zone: ZoneOption = None,
    terminal: GivenTerminal,
) -> None:
    """Import the add_job calls of an APScheduler 3 program, which is not run.

    The zone is the one that the scheduler names, or --zone. Try:

        rota import apscheduler jobs.py --zone Europe/Berlin
    """
    program = Path(file).stem if file != STANDARD else "your_program"
    imported = read_apscheduler(_read(file), choose_zone(zone).zone, program)
    _finish(terminal, imported, file, out)


def _read(file: str) -> str:
    with open_input(file) as source:
        try:
            return source.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise invalid("FILE", "is not UTF-8") from error


def _finish(terminal: Terminal, imported: Imported, file: str, out: str) -> None:
    imported = check_rules(imported)
    program = write_program(imported, Path(file).name)
    if out == STANDARD:
        terminal.print_lines(program)
    else:
        _write(Path(out), program)
    for line in list_lines(imported, terminal.clock.now()):
        terminal.print_lines(line)
    said = count_of(len(imported.schedules), "schedule")
    where = "" if out == STANDARD else f" in {out}"
    terminal.print_text(f"{said}{escape(where)}, {len(imported.unreadable)} left out", "bold")


def _write(path: Path, program: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(program)
    except FileExistsError as error:
        reason = f"{path} exists: name another file with --out, or print the program with --out -"
        raise InvalidInputError(reason, {"field": "--out"}) from error
    except OSError as error:
        raise invalid("--out", f"cannot be written: {error}") from error


COMPARED_FOR = timedelta(days=731)

_INSTANT = timedelta(microseconds=1)
_NEVER = datetime.max.replace(tzinfo=UTC)
_LINE_LENGTH = 100
_CHECKED_FROM = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Difference:
    """A fire that only one of the two schedulers has, and why."""

    at: datetime
    is_ours: bool
    reason: str


@dataclass(frozen=True)
class Comparison:
    """How many fires the other scheduler has in two years, and those that differ, by time."""

    fire_count: int
    differences: list[Difference]


def compare(schedule: ImportedSchedule, now: datetime) -> Comparison:
    """Compares every fire of two years, from the next midnight on."""
    begin, end = find_window(schedule, now)
    theirs = schedule.rule.fires(max(begin, schedule.start or begin), end, schedule.zone)
    ours = list_ours(schedule, begin, end)
    count, found = 0, list[Difference]()
    left, right = next(theirs, _NEVER), next(ours, _NEVER)
    while left != right or left != _NEVER:
        if left != right:
            at, is_ours = min(left, right), right < left
            found.append(Difference(at, is_ours, _explain(schedule, at)))
        count += left <= right
        is_left, is_right = left <= right, right <= left
        left = next(theirs, _NEVER) if is_left else left
        right = next(ours, _NEVER) if is_right else right
    return Comparison(count, found)


def find_window(schedule: ImportedSchedule, now: datetime) -> tuple[datetime, datetime]:
    """The two years that are compared: they begin at a midnight of the schedule's zone."""
    day = now.astimezone(schedule.zone).date() + DAY
    begin = instants_of(datetime.combine(day, time()), schedule.zone, gap="shift", fold="first")[0]
    return begin, begin + COMPARED_FOR


def list_ours(schedule: ImportedSchedule, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The instants from ``begin`` on and before ``end`` at which Rota runs the schedule."""
    trigger = make_trigger(_make_recurrence(schedule, begin))
    if isinstance(trigger, CronTrigger):
        yield from _list_cron(trigger, begin, end)
    elif isinstance(trigger, RecurrenceRule):
        yield from trigger.between(begin - _INSTANT, end - _INSTANT)
    else:
        at = trigger.next_after(begin - _INSTANT)
        while at is not None and at < end:
            yield at
            at = trigger.next_after(at)


def _list_cron(trigger: CronTrigger, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Gap and fold count only near a clock change; without them the search is five times faster."""
    cron, zone = trigger.cron, trigger.zone
    for change in transitions_between(begin - 2 * DAY, end + 2 * DAY, zone):
        near, far = max(begin, change.at - 2 * DAY), min(end, change.at + 2 * DAY)
        yield from cron.between(begin - _INSTANT, near - _INSTANT, zone)
        yield from cron.between(
            near - _INSTANT, far - _INSTANT, zone, gap=trigger.gap, fold=trigger.fold
        )
        begin = max(begin, far)
    yield from cron.between(begin - _INSTANT, end - _INSTANT, zone)


def check_rules(imported: Imported) -> Imported:
    """The same, without the schedules that Rota refuses, such as those that never fire."""
    kept: list[ImportedSchedule] = []
    refused: list[Unreadable] = []
    for schedule in imported.schedules:
        try:
            make_trigger(_make_recurrence(schedule, _CHECKED_FROM))
            kept.append(schedule)
        except InvalidInputError as error:
            refused.append(Unreadable(schedule.where, f"Rota refuses it: {error.message}"))
    return Imported(tuple(kept), (*imported.unreadable, *refused), imported.imports)


def _make_recurrence(schedule: ImportedSchedule, start: datetime) -> Recurrence:
    is_rule = schedule.when.startswith("FREQ=")
    is_interval = isinstance(schedule.rule, IntervalRule)
    options = schedule.options
    return Recurrence(
        cron=None if is_rule or is_interval else schedule.when,
        rrule=schedule.when if is_rule else None,
        interval=schedule.when if is_interval else None,
        zone=str(schedule.zone),
        start=start.replace(microsecond=0),
        gap=options.get("gap"),
        fold=options.get("fold"),
    )


def _explain(schedule: ImportedSchedule, at: datetime) -> str:
    if schedule.start is not None and at < schedule.start:
        return "its start_date is not carried over"
    near = transitions_between(at - DAY, at + DAY, schedule.zone)
    if schedule.gap_reason and any(change.is_gap for change in near):
        return schedule.gap_reason
    return schedule.miss_reason


def list_lines(imported: Imported, now: datetime) -> Iterator[str]:
    """The report: for each schedule what differs, then what was left out."""
    for schedule in imported.schedules:
        found = compare(schedule, now)
        count = len(found.differences) or "none"
        said = (
            f"{found.fire_count:,} fires compared, {count} differ{'s' if count == 'none' else ''}"
        )
        yield f"{schedule.name} ({schedule.where}): {schedule.source} -> {schedule.when}: {said}"
        for each in found.differences:
            who = "only Rota" if each.is_ours else "only before"
            local = each.at.astimezone(schedule.zone)
            yield f"    {local:%a %Y-%m-%d %H:%M:%S} ({utc(each.at)}) {who}: {each.reason}"
        for note in schedule.notes:
            yield f"    note: {note}"
    for left_out in imported.unreadable:
        yield f"left out, {left_out.where}: {left_out.reason}"


def write_program(imported: Imported, source: str) -> str:
    """The program that declares the schedules."""
    lines = [f'"""Tasks imported from {source}."""', ""]
    lines += [*imported.imports, ""] if imported.imports else []
    lines += ["from rota import Rota", "", "app = Rota()"]
    for schedule in imported.schedules:
        lines += ["", "", _decorate(schedule)]
        lines += (
            [] if schedule.queue is None else [f"@app.task(queue={json.dumps(schedule.queue)})"]
        )
        lines.append(f"def {schedule.name}() -> None:")
        lines.append(f'    """{_quote(schedule.source)}"""')
        lines += [f"    {line}" if line else "" for line in schedule.body]
    return "\n".join(lines) + "\n"


def _decorate(schedule: ImportedSchedule) -> str:
    is_interval = isinstance(schedule.rule, IntervalRule)
    options: dict[str, Any] = {} if is_interval else {"zone": str(schedule.zone)}
    given = options | {name: value for name, value in schedule.options.items() if value is not None}
    words = [
        json.dumps(schedule.when),
        *(f"{name}={json.dumps(value)}" for name, value in given.items()),
    ]
    line = f"@app.schedule({', '.join(words)})"
    if len(line) <= _LINE_LENGTH:
        return line
    return "\n".join(["@app.schedule(", *(f"    {word}," for word in words), ")"])


def _quote(text: str) -> str:
    return f"Was {text}.".replace("\\", "\\\\").replace('"""', "'''")
