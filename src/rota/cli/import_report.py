"""Compares imported schedules with the originals, and writes the program that has them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from rota.cli.import_rule import DAY, FieldRule, utc
from rota.cli.import_sources import Imported, ImportedSchedule, Unreadable
from rota.errors import InvalidInputError
from rota.jobs import Recurrence, make_trigger
from rota.triggers import Trigger
from rota.triggers.zone import instants_of, transitions_between

COMPARED_FOR = timedelta(days=731)
DENSE = 300
"""Fires a day. A denser schedule fires at the same times on each of its days, except around clock
changes: those days are compared whole, and of the others the first fire."""
WHOLE_DAYS = 31
"""The first days, with every day of the week and of the month, are compared whole as well."""

_INSTANT = timedelta(microseconds=1)
_LINE_LENGTH = 100
_CHECKED_FROM = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Difference:
    """A fire that only one of the two schedulers has, and why."""

    at: datetime
    is_ours: bool
    reason: str


def compare(schedule: ImportedSchedule, start: datetime) -> list[Difference]:
    """The fires of two years that differ, by time."""
    rule = schedule.rule
    if rule is None:
        return []
    trigger = make_trigger(_make_recurrence(schedule, start))
    found: list[Difference] = []
    changes = _find_changes(schedule, start)
    first = start.astimezone(schedule.zone).date() + DAY
    for number in range(COMPARED_FOR.days):
        day = first + number * DAY
        is_whole = rule.fires_a_day <= DENSE or day in changes or number < WHOLE_DAYS
        differences = list(_compare_day(schedule, rule, trigger, day, is_whole=is_whole))
        if differences and not is_whole:
            differences = list(_compare_day(schedule, rule, trigger, day, is_whole=True))
        found += differences
    return found


def check_rules(imported: Imported) -> Imported:
    """The same, without the schedules that Rota refuses, such as those that never fire."""
    kept: list[ImportedSchedule] = []
    refused: list[Unreadable] = []
    for schedule in imported.schedules:
        try:
            if schedule.rule is not None:
                make_trigger(_make_recurrence(schedule, _CHECKED_FROM))
            kept.append(schedule)
        except InvalidInputError as error:
            refused.append(Unreadable(schedule.where, f"Rota refuses it: {error.message}"))
    return Imported(tuple(kept), (*imported.unreadable, *refused), imported.imports)


def _make_recurrence(schedule: ImportedSchedule, start: datetime) -> Recurrence:
    is_rule = schedule.when.startswith("FREQ=")
    options = schedule.options
    return Recurrence(
        cron=None if is_rule else schedule.when,
        rrule=schedule.when if is_rule else None,
        zone=str(schedule.zone),
        start=start.replace(microsecond=0),
        gap=options.get("gap"),
        fold=options.get("fold"),
    )


def _find_changes(schedule: ImportedSchedule, start: datetime) -> set[date]:
    """The days on which clocks change, and the days beside them."""
    days: set[date] = set()
    for change in transitions_between(start, start + COMPARED_FOR + 2 * DAY, schedule.zone):
        at = change.at.astimezone(schedule.zone).date()
        days |= {at - DAY, at, at + DAY}
    return days


def _compare_day(
    schedule: ImportedSchedule, rule: FieldRule, trigger: Trigger, day: date, *, is_whole: bool
) -> Iterator[Difference]:
    midnight = datetime.combine(day, datetime.min.time())
    begin = instants_of(midnight, schedule.zone, gap="shift", fold="first")[0]
    end = instants_of(midnight + DAY, schedule.zone, gap="shift", fold="first")[0]
    theirs = {at for at in rule.fires_on(day, schedule.zone) if at < end}
    ours = _list_ours(trigger, begin, end, None if is_whole else 1)
    if not is_whole:
        theirs = set(sorted(theirs)[:1])
    for at in sorted(theirs ^ ours):
        yield Difference(at, at in ours, _explain(schedule, at))


def _list_ours(
    trigger: Trigger, begin: datetime, end: datetime, limit: int | None
) -> set[datetime]:
    found: set[datetime] = set()
    at = trigger.next_after(begin - _INSTANT)
    while at is not None and at < end and len(found) != limit:
        found.add(at)
        at = trigger.next_after(at)
    return found


def _explain(schedule: ImportedSchedule, at: datetime) -> str:
    for change in transitions_between(at - DAY, at + DAY, schedule.zone):
        reason = schedule.fold_reason if change.is_fold else schedule.gap_reason
        if reason:
            return reason
    return schedule.day_reason or "the two read the rule differently"


def list_lines(imported: Imported, start: datetime) -> Iterator[str]:
    """The report: for each schedule what differs, then what was left out."""
    for schedule in imported.schedules:
        differences = compare(schedule, start)
        count = len(differences)
        said = "no fire differs" if not count else f"{count} fires differ"
        if schedule.rule is None:
            said = "an interval; fires are not compared"
        yield f"{schedule.name} ({schedule.where}): {schedule.source} -> {schedule.when}: {said}"
        for each in differences:
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
        lines += ["", "", _decorate(schedule), f"def {schedule.name}() -> None:"]
        lines.append(f'    """{_quote(schedule.source)}"""')
        lines += [f"    {line}" if line else "" for line in schedule.body]
    return "\n".join(lines) + "\n"


def _decorate(schedule: ImportedSchedule) -> str:
    options: dict[str, Any] = {} if schedule.rule is None else {"zone": str(schedule.zone)}
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
