"""Reads the beat schedule of a Celery project from its Python source, or from JSON."""

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from rota.cli.import_calls import (
    SourceCall,
    SourceName,
    as_seconds,
    format_interval,
    parse_source,
    read_value,
)
from rota.cli.import_rule import (
    DAY_FIELD,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTHS,
    WEEKDAYS,
    FieldRule,
    NumberField,
    to_identifier,
    to_when,
)
from rota.cli.import_sources import Imported, ImportedSchedule, Unreadable
from rota.errors import InvalidInputError
from rota.triggers.zone import load_zone

_SCHEDULES = {"beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE"}
_ZONES = {"timezone", "CELERY_TIMEZONE"}
_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_WEEKDAY_FIELD = NumberField(
    0, 7, {name: (number + 1) % 7 for number, name in enumerate(WEEKDAYS)}, may_wrap=True
)
_MONTH_FIELD = NumberField(
    1, 12, {name: number for number, name in enumerate(MONTHS, 1)}, may_wrap=True
)
_INTERVAL = (
    "Celery counts from when beat last sent it, and begins anew with beat; Rota keeps the phase of "
    "the first start"
)


def read_celery(text: str, zone: ZoneInfo | None) -> Imported:
    """The schedules in a file; ``zone`` overrides the one it names."""
    found = dict(_read_json(text) if text.lstrip().startswith("{") else _read_python(text))
    schedules: list[ImportedSchedule] = []
    unreadable = [Unreadable(where, str(why)) for where, why in found.pop("unreadable", ())]
    chosen = zone or _read_zone(found.get("zone"))
    taken = {"app"}
    for name, entry in found.get("entries", {}).items():
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
    for node in ast.walk(parse_source(text)):
        for name, value in _list_settings(node):
            if name in _ZONES and isinstance(value, ast.Constant):
                zone = value.value
            elif name in _SCHEDULES:
                entries |= _read_entries(value, unreadable)
        if isinstance(node, ast.Call) and _is_periodic(node):
            reason = "add_periodic_task is a call: schedule its task with @app.schedule"
            unreadable.append((f"line {node.lineno}", reason))
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
    schedule, seconds = entry.get("schedule"), as_seconds(entry.get("schedule"))
    if isinstance(schedule, SourceCall) and schedule.name == "schedule" and schedule.args:
        seconds = as_seconds(schedule.args[0])
    rule = None if seconds is not None else _read_rule(schedule)
    when = to_when(rule) if rule is not None else format_interval(seconds or 0)
    return ImportedSchedule(
        name=to_identifier(name, taken),
        where=name,
        source=_show(schedule),
        when=when,
        body=tuple(_make_body(entry)),
        zone=zone,
        rule=rule,
        options={"overlap": "allow"} | ({} if rule is None else {"gap": "shift", "fold": "first"}),
        day_reason="Celery asks for the day of the month and the weekday at once",
        notes=() if rule is not None else (_INTERVAL,),
    )


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
        months=_parse(given.get("month_of_year", "*"), _MONTH_FIELD),
        weekdays=frozenset((number - 1) % 7 for number in weekdays),
    )


def _list_fields(schedule: Any) -> dict[str, Any]:
    if isinstance(schedule, SourceCall) and schedule.name == "crontab":
        return dict(zip(_FIELDS, schedule.args, strict=False)) | schedule.kwargs
    if isinstance(schedule, Mapping):
        inner = schedule.get("crontab", schedule)
        return dict(inner)
    raise InvalidInputError(
        f"{_show(schedule)} is neither crontab(...) nor a length of time", {"field": "schedule"}
    )


def _parse(value: Any, of: NumberField) -> frozenset[int]:
    if isinstance(value, list | tuple):
        return frozenset(number for item in value for number in of.parse(str(item)))
    return of.parse(str(value))


def _make_body(entry: Mapping[str, Any]) -> Iterator[str]:
    module, _, function = entry["task"].rpartition(".")
    args = [repr(_plain(value)) for value in entry.get("args") or ()]
    kwargs = entry.get("kwargs") or {}
    args += [f"{name}={_plain(value)!r}" for name, value in kwargs.items()]
    if not module.replace(".", "_").isidentifier() or not function.isidentifier():
        yield f"raise NotImplementedError({'call the task ' + entry['task']!r})"
        return
    yield f"from {module} import {function} as task"
    yield ""
    yield f"task({', '.join(args)})"


def _plain(value: Any) -> Any:
    if isinstance(value, SourceCall | SourceName):
        raise InvalidInputError(f"the argument {_show(value)} is not a literal", {"field": "args"})
    return value


def _show(value: Any) -> str:
    if isinstance(value, SourceName):
        return value.text
    if isinstance(value, SourceCall):
        args = [_show(each) for each in value.args]
        args += [f"{name}={_show(each)}" for name, each in value.kwargs.items()]
        return f"{value.name}({', '.join(args)})"
    return repr(value)
