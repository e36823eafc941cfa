"""Reads a crontab, as Vixie cron and cronie understand it."""

import json
import re
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from rota.cli.import_rule import (
    DAY_FIELD,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTH_FIELD,
    WEEKDAYS,
    FieldRule,
    Imported,
    ImportedSchedule,
    NumberField,
    Unreadable,
    to_identifier,
    to_when,
)
from rota.errors import InvalidInputError
from rota.triggers.zone import load_zone

_SETTING = re.compile(r"""\s*["']?([A-Za-z_]\w*)["']?\s*=\s*["']?(.*?)["']?\s*$""")
_WEEKDAY_FIELD = NumberField(0, 7, {name: (number + 1) % 7 for number, name in enumerate(WEEKDAYS)})
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_GAP = (
    "cron runs a job of the skipped hour as soon as the clocks have gone forward; Rota moves it by "
    "the length of the gap"
)


def read_crontab(text: str, zone: ZoneInfo, *, has_users: bool) -> Imported:
    """The schedules of a crontab; ``has_users``: a user follows the five fields."""
    schedules: list[ImportedSchedule] = []
    unreadable: list[Unreadable] = []
    taken = {"app", "run"}
    for number, raw in enumerate(text.splitlines(), start=1):
        line, where = raw.strip(), f"line {number}"
        if not line or line.startswith("#"):
            continue
        setting = _SETTING.match(line)
        try:
            if setting is None:
                schedules.append(_read_entry(line, where, zone, taken, has_users=has_users))
            elif setting[1] in ("CRON_TZ", "TZ"):
                zone = load_zone(setting[2])
            else:
                unreadable.append(Unreadable(where, f"set {setting[1]} where the worker runs"))
        except InvalidInputError as error:
            unreadable.append(Unreadable(where, error.message))
    return Imported(tuple(schedules), tuple(unreadable), ("import subprocess",))


def _read_entry(
    line: str, where: str, zone: ZoneInfo, taken: set[str], *, has_users: bool
) -> ImportedSchedule:
    expression, user, command = _split(line, has_users=has_users)
    rule = _read_rule(expression)
    words, *_ = command.split("%", 1)
    name = to_identifier(_name_of(words), taken)
    when = to_when(rule)
    options = {"overlap": "allow", "catch_up": "skip"}
    options["gap"] = "skip" if rule.gap == "skip" else "shift"
    options["fold"] = rule.fold
    return ImportedSchedule(
        name=name,
        where=where,
        source=expression,
        when=when,
        body=(f'subprocess.run(["/bin/sh", "-c", {json.dumps(words.strip())}], check=True)',),
        zone=zone,
        rule=rule,
        options=options,
        gap_reason=_GAP,
        notes=tuple(_list_notes(command, user)),
    )


def _list_notes(command: str, user: str) -> Iterator[str]:
    if "%" in command:
        yield "what follows the % was the command's standard input; it is left out"
    if user:
        yield f"cron ran it as {user}; it now runs as the user of the worker"


def _split(line: str, *, has_users: bool) -> tuple[str, str, str]:
    count = 1 if line.startswith("@") else 5
    words = line.split(None, count + has_users)
    if len(words) < count + has_users + 1:
        raise InvalidInputError("it has too few fields", {"field": "line"})
    expression = " ".join(words[:count])
    if expression.startswith("@") and expression not in _MACROS:
        reason = "run it when the worker starts" if expression == "@reboot" else "it is unknown"
        raise InvalidInputError(f"{expression} has no time: {reason}", {"field": "line"})
    return _MACROS.get(expression, expression), words[count] if has_users else "", words[-1]


def _read_rule(expression: str) -> FieldRule:
    minute, hour, day, month, weekday = expression.split()
    is_wild = minute.startswith("*") or hour.startswith("*")
    weekdays = frozenset((number - 1) % 7 for number in _WEEKDAY_FIELD.parse(weekday))
    # A field that begins with a star, even with a step, does not count as a restriction.
    is_either = not day.startswith("*") and not weekday.startswith("*")
    return FieldRule(
        minutes=MINUTE_FIELD.parse(minute),
        hours=HOUR_FIELD.parse(hour),
        days=DAY_FIELD.parse(day),
        months=MONTH_FIELD.parse(month),
        weekdays=weekdays,
        is_either=is_either,
        gap="skip" if is_wild else "after",
        fold="both" if is_wild else "first",
    )


def _name_of(command: str) -> str:
    """The name of the program and its first argument that is a word."""
    words = [word for word in command.split() if "=" not in word]
    program = words[0].rsplit("/", 1)[-1] if words else "task"
    extra = [word for word in words[1:3] if word.isidentifier()]
    return " ".join([program.rsplit(".", 1)[0], *extra[:1]])
