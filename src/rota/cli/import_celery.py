"""Reads the beat schedule of a Celery project from its Python source, or from JSON."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from rota.cli.import_calls import (
    SourceCall,
    as_seconds,
    format_arguments,
    format_interval,
    parse_source,
    read_value,
    show,
)
from rota.cli.import_rule import (
    DAY_FIELD,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTH_FIELD,
    WEEKDAYS,
    FieldRule,
    Imported,
    ImportedSchedule,
    IntervalRule,
    NumberField,
    Unreadable,
    to_identifier,
    to_when,
)
from rota.errors import InvalidInputError
from rota.jobs.fields import read_queue
from rota.triggers.zone import load_zone

_SCHEDULES = {"beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"}
_ZONES = {"timezone", "CELERY_TIMEZONE"}
_UTC_SWITCHES = {"enable_utc", "CELERY_ENABLE_UTC"}
_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_STRING_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_WEEKDAY_NAMES = {name: (number + 1) % 7 for number, name in enumerate(WEEKDAYS)}
_WEEKDAY_FIELD = NumberField(0, 6, _WEEKDAY_NAMES)
_LONG_NAME = re.compile(r"([A-Za-z]{3})[A-Za-z]+")
_INTERVAL = (
    "compared from a common start; Celery counts from when beat last sent it, Rota from the first "
    "start of the schedule"
)
_WALL_INTERVAL = (
    "Celery before 5.7 counts on the wall clock: the interval is an hour longer or shorter when "
    "clocks change; in Rota it is not"
)
_GAP = (
    "Celery counts from its last run, so that of several times in a skipped hour only the first "
    "runs; Rota moves each by the length of the gap"
)
_OPTIONS = {
    "expires": "expires is not carried over: a job that waited longer than that still runs",
    "priority": "priority is not carried over: give the task one, from 1 to 10, the highest",
    "countdown": "countdown is not carried over",
    "eta": "eta is not carried over",
}


def read_celery(text: str, zone: ZoneInfo | None) -> Imported:
    """The schedules in a file; ``zone`` overrides the one it names."""
    found = dict(_read_json(text) if text.lstrip().startswith("{") else _read_python(text))
    schedules: list[ImportedSchedule] = []
    unreadable = [Unreadable(where, str(why)) for where, why in found.pop("unreadable", ())]
    chosen = zone or _read_zone(found.get("zone"))
    taken = {"app"}
    if not found.get("entries") and not unreadable:
        reason = f"no beat schedule found; it is a dict named {' or '.join(sorted(_SCHEDULES))}"
        raise InvalidInputError(f"FILE: {reason}", {"field": "FILE"})
    for name, entry in found["entries"].items():
        try:
            schedules.append(_read_entry(str(name), entry, chosen, taken))
        except InvalidInputError as error:
            unreadable.append(Unreadable(str(name), error.message))
    return Imported(tuple(schedules), tuple(unreadable))


def _read_json(text: str) -> Iterator[tuple[str, Any]]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"the file is not JSON: {error}", {"field": "FILE"}) from error
    names = [name for name in read if name in _SCHEDULES]
    yield "entries", read[names[0]] if names else read
    yield "zone", next((read[name] for name in read if name in _ZONES), None)


def _read_python(text: str) -> Iterator[tuple[str, Any]]:
    entries: dict[Any, Any] = {}
    unreadable: list[tuple[str, str]] = []
    zone: Any = None
    is_local = False
    for node in ast.walk(parse_source(text)):
        for name, value in _list_settings(node):
            if name in _ZONES and isinstance(value, ast.Constant):
                zone = value.value
            elif name in _UTC_SWITCHES and isinstance(value, ast.Constant):
                is_local = value.value is False
            elif name in _SCHEDULES:
                entries |= _read_entries(value, unreadable)
        if isinstance(node, ast.Call) and _is_periodic(node):
            reason = "add_periodic_task is a call: schedule its task with @app.schedule"
            unreadable.append((f"line {node.lineno}", reason))
    if is_local and zone is None:
        unreadable.append(("enable_utc", "beat ran in the zone of its host: name it with --zone"))
    yield from (("entries", entries), ("zone", zone), ("unreadable", unreadable))


def _list_settings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Assignments and keywords whose last name is a setting's."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield ast.unparse(target).rsplit(".", 1)[-1], node.value
    elif isinstance(node, ast.keyword) and node.arg is not None:
        yield node.arg, node.value


def _read_entries(value: ast.expr, unreadable: list[tuple[str, str]]) -> dict[Any, Any]:
    if not isinstance(value, ast.Dict):
        unreadable.append((f"line {value.lineno}", "the schedule is not a literal dict"))
        return {}
    found: dict[Any, Any] = {}
    for key, inner in zip(value.keys, value.values, strict=True):
        if key is None:
            unreadable.append((f"line {inner.lineno}", "** must be run to be known"))
            continue
        try:
            found[read_value(key)] = read_value(inner)
        except (InvalidInputError, TypeError) as error:
            unreadable.append((ast.unparse(key), str(error)))
    return found


def _is_periodic(node: ast.Call) -> bool:
    return ast.unparse(node.func).endswith("add_periodic_task")


def _read_zone(name: Any) -> ZoneInfo:
    return load_zone(name if isinstance(name, str) else "UTC")


def _read_entry(name: str, entry: Any, zone: ZoneInfo, taken: set[str]) -> ImportedSchedule:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("task"), str):
        raise InvalidInputError("it names no task", {"field": name})
    schedule, seconds = entry.get("schedule"), _read_seconds(entry.get("schedule"))
    rule: FieldRule | IntervalRule
    if seconds is None:
        rule = _read_rule(schedule)
        when, options = to_when(rule), {"gap": "shift", "fold": "first"}
    else:
        when, options = format_interval(seconds), {}
        rule = IntervalRule(timedelta(seconds=seconds))
    queue, notes = _read_options(entry.get("options") or {})
    if seconds is not None:
        notes += [_INTERVAL] if str(zone) == "UTC" else [_INTERVAL, _WALL_INTERVAL]
    return ImportedSchedule(
        name=to_identifier(name, taken),
        where=name,
        source=show(schedule),
        when=when,
        body=tuple(_make_body(entry, when)),
        zone=zone,
        rule=rule,
        queue=queue,
        options={"overlap": "allow"} | options,
        gap_reason=_GAP,
        notes=tuple(notes),
    )


def _read_seconds(schedule: Any) -> float | None:
    """The length of an interval; None for anything else."""
    if not isinstance(schedule, SourceCall) or schedule.name != "schedule":
        return as_seconds(schedule)
    given = dict(zip(("run_every", "relative"), schedule.args, strict=False)) | schedule.kwargs
    if given.get("relative"):
        reason = "relative=True rounds to the clock: write it as a crontab"
        raise InvalidInputError(reason, {"field": "schedule"})
    return as_seconds(given.get("run_every"))


def _read_options(options: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The queue, and what is not carried over."""
    queue = options.get("queue")
    others = [name for name in options if name != "queue"]
    notes = [_OPTIONS.get(name, f"{name} is not carried over") for name in others]
    return (read_queue(queue) if isinstance(queue, str) else None), notes


def _read_rule(schedule: Any) -> FieldRule:
    given = _list_fields(schedule)
    unknown = given.keys() - set(_FIELDS)
    if unknown:
        raise InvalidInputError(f"crontab has no {min(unknown)} here", {"field": "schedule"})
    weekdays = _parse(given.get("day_of_week", "*"), _WEEKDAY_FIELD)
    return FieldRule(
        minutes=_parse(given.get("minute", "*"), MINUTE_FIELD),
        hours=_parse(given.get("hour", "*"), HOUR_FIELD),
        days=_parse(given.get("day_of_month", "*"), DAY_FIELD),
        months=_parse(given.get("month_of_year", "*"), MONTH_FIELD),
        weekdays=frozenset((number - 1) % 7 for number in weekdays),
        follows_last=True,
    )


def _list_fields(schedule: Any) -> dict[str, Any]:
    if isinstance(schedule, SourceCall) and schedule.name == "crontab":
        return dict(zip(_FIELDS, schedule.args, strict=False)) | schedule.kwargs
    if isinstance(schedule, SourceCall) and schedule.name == "from_string":
        return dict(zip(_STRING_FIELDS, str(*schedule.args).split(), strict=True))
    if isinstance(schedule, SourceCall) and schedule.name == "solar":
        raise InvalidInputError("Rota has no schedules by sunrise and sunset", {})
    if isinstance(schedule, Mapping):
        inner = schedule.get("crontab", schedule)
        return dict(inner)
    raise InvalidInputError(
        f"{show(schedule)} is neither crontab(...) nor a length of time", {"field": "schedule"}
    )


def _parse(value: Any, of: NumberField) -> frozenset[int]:
    if isinstance(value, list | tuple):
        return frozenset(number for item in value for number in _parse(item, of))
    if not isinstance(value, int | str):
        raise InvalidInputError(f"{show(value)} is not a literal", {"field": "schedule"})
    return replace(of, may_wrap=True).parse(_LONG_NAME.sub(r"\1", str(value)))


def _make_body(entry: Mapping[str, Any], when: str) -> Iterator[str]:
    module, _, function = entry["task"].rpartition(".")
    if not module.replace(".", "_").isidentifier() or not function.isidentifier():
        reason = f"the task {entry['task']!r} does not say where its function is"
        raise InvalidInputError(f'{reason}; schedule the function with "{when}"', {"field": "task"})
    yield f"from {module} import {function} as task"
    yield ""
    yield f"task({format_arguments(entry.get('args'), entry.get('kwargs'))})"
