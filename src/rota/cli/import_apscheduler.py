"""Reads the ``add_job`` calls of an APScheduler 3 program from its source, and finds its fires."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from rota.cli.import_calls import (
    SourceCall,
    SourceName,
    format_arguments,
    format_interval,
    parse_source,
    read_value,
)
from rota.cli.import_rule import (
    DAY,
    DAY_FIELD,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTH_FIELD,
    SECOND_FIELD,
    WEEKDAYS,
    FieldRule,
    Imported,
    ImportedSchedule,
    IntervalRule,
    NumberField,
    Numbers,
    Unreadable,
    find_changing_days,
    find_midnight,
    to_identifier,
    to_when,
)
from rota.errors import InvalidInputError
from rota.triggers.zone import load_zone

_CRON_FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_LOWEST = {"hour": "0", "minute": "0", "second": "0"}
_UNITS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
_WEEKDAY_FIELD = NumberField(0, 6, {name: number for number, name in enumerate(WEEKDAYS)})
_WEEK_FIELD = NumberField(1, 53)
_ORDINALS = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5, "last": -1}
_NTH = re.compile(r"(1st|2nd|3rd|4th|5th|last)\s+(\w{3})")
_SCHEDULERS = re.compile(r"\w*Scheduler$")
_INTERVAL = (
    "compared from a common start; APScheduler counts from start_date or from when it starts, Rota "
    "from the first start of the schedule"
)
_GAP = (
    "APScheduler runs only the first of several times in a skipped hour; Rota moves each by the "
    "length of the gap"
)
_MISS = "clocks change between the fire before and this one, and APScheduler misses it"
_JITTER = "the jitter is as long, but not the same: Rota's depends on the occurrence alone"
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_SEARCHED = ("year", "month", "day", "week", "weekday", "hour", "minute", "second")
_SET = ("year", "month", "day", "hour", "minute", "second")
_LOWEST_OF = {"year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}
_HIGHEST = {"year": 9999, "month": 12, "hour": 23, "minute": 59, "second": 59}


@dataclass(frozen=True)
class SearchedRule(FieldRule):
    """A rule whose fires are those that APScheduler finds, one after the other.

    It goes through the fields from the year to the second. A field that fits is kept, one that is
    too low is set, and one that has passed moves a larger field on. That move is computed on the
    wall clock and made in real time, so a change of the clocks on the way can make it miss a fire.
    """

    def fires(self, begin: datetime, end: datetime, zone: tzinfo) -> Iterator[datetime]:
        changing = find_changing_days(begin, end, zone)
        last: datetime | None = begin - _MICROSECOND
        while last is not None and last < end:
            day = last.astimezone(zone).date()
            found = [] if day in changing else self._list_rest(day, last, zone)
            if not found:
                following = self._search(last, end, zone)
                found = [] if following is None else [following]
            yield from (at for at in found if at < end)
            last = found[-1] if found else None

    def _list_rest(self, day: date, last: datetime, zone: tzinfo) -> list[datetime]:
        """The fires of a day after the last one; no clock change is near."""
        if not self.matches(day):
            return []
        midnight = find_midnight(day, zone)
        return [midnight + since for since in self.clock_times if midnight + since > last]

    def _search(self, last: datetime, end: datetime, zone: tzinfo) -> datetime | None:
        """The next fire, or an instant after ``end``; None if the calendar ends."""
        at = _ceil(last + _MICROSECOND).astimezone(zone)
        index = 0
        while 0 <= index < len(_SEARCHED) and at.astimezone(UTC) < end:
            name = _SEARCHED[index]
            current, wanted = _value(name, at), self._next_value(name, at)
            if wanted is not None and wanted <= current:
                index += 1
            elif wanted is not None and name in _SET:
                at = _reset(at, name, wanted).replace(tzinfo=zone, fold=at.fold)
                index += 1
            else:
                at, index = _move_on(at, index if wanted is not None else index - 1)
        return None if index < 0 else at.astimezone(UTC)

    def _next_value(self, name: str, at: datetime) -> int | None:
        """The first value of a field that fits, from the current one on."""
        if name == "year":
            return at.year
        if name == "day":
            days = range(at.day, _highest("day", at) + 1)
            return next((day for day in days if self.matches_day(at.date().replace(day=day))), None)
        chosen = self._numbers(name)
        return min((number for number in chosen if number >= _value(name, at)), default=None)

    def _numbers(self, name: str) -> Numbers:
        if name == "week":
            return frozenset(range(1, 54)) if self.weeks is None else self.weeks
        found: Numbers = getattr(self, f"{name}s")
        return found


def _value(name: str, at: datetime) -> int:
    if name == "week":
        return at.isocalendar().week
    value: int = at.weekday() if name == "weekday" else getattr(at, name)
    return value


def _highest(name: str, at: datetime) -> int:
    if name != "day":
        return _HIGHEST[name]
    return ((at.replace(day=1, tzinfo=None) + 31 * DAY).replace(day=1) - DAY).day


def _reset(at: datetime, name: str, value: int) -> datetime:
    """The wall time with a field set, and the smaller ones at their lowest."""
    smaller = _SET[_SET.index(name) + 1 :]
    values = {it: getattr(at, it) for it in _SET} | {name: value}
    values |= {it: _LOWEST_OF[it] for it in smaller}
    return datetime(**values)  # noqa: DTZ001 - a wall time


def _move_on(at: datetime, index: int) -> tuple[datetime, int]:
    """Add one to a field, or to the next larger one that is not at its highest."""
    while index >= 0:
        name = _SEARCHED[index]
        if name in _SET and getattr(at, name) < _highest(name, at):
            wall = _reset(at, name, getattr(at, name) + 1)
            passed = wall - at.replace(tzinfo=None)
            return (at.astimezone(UTC) + passed).astimezone(at.tzinfo), index
        index -= 1
    return at, index


def _ceil(instant: datetime) -> datetime:
    whole = instant.replace(microsecond=0)
    return whole if whole == instant else whole + _SECOND


def read_apscheduler(text: str, zone: ZoneInfo, program: str = "your_program") -> Imported:
    """The jobs that a program adds; ``zone`` if the scheduler names none.

    ``program`` is the module that the functions are imported from.
    """
    module = parse_source(text)
    defaults = _read_defaults(module, zone) | {"program": program}
    schedules: list[ImportedSchedule] = []
    unreadable: list[Unreadable] = []
    taken = {"app"}
    jobs = [*_list_jobs(module)]
    if not jobs:
        reason = "no add_job or scheduled_job found; give the file that adds the jobs"
        raise InvalidInputError(f"FILE: {reason}", {"field": "FILE"})
    for line, function, node in jobs:
        where = f"line {line}"
        try:
            call = read_value(node)
            schedules.append(_read_job(call, function, where, defaults, taken))
        except (InvalidInputError, TypeError, ValueError) as error:
            reason = error.message if isinstance(error, InvalidInputError) else str(error)
            unreadable.append(Unreadable(where, reason))
    return Imported(tuple(schedules), tuple(unreadable))


def _read_defaults(module: ast.Module, zone: ZoneInfo) -> dict[str, Any]:
    """The zone and the job defaults of the scheduler."""
    found: dict[str, Any] = {"zone": zone}
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or not _SCHEDULERS.search(ast.unparse(node.func)):
            continue
        for keyword in node.keywords:
            if keyword.arg == "timezone":
                found["zone"] = _read_zone(read_value(keyword.value), zone)
            elif keyword.arg == "job_defaults" and isinstance(keyword.value, ast.Dict):
                found |= read_value(keyword.value)
    return found


def _list_jobs(module: ast.Module) -> Iterator[tuple[int, str, ast.Call]]:
    """Calls of ``add_job``, and ``scheduled_job`` decorators, with the function they schedule."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
            named = [each for each in calls if _is_named(each, "scheduled_job")]
            yield from ((each.lineno, node.name, each) for each in named)
        elif isinstance(node, ast.Call) and _is_named(node, "add_job"):
            yield node.lineno, "", node


def _is_named(node: ast.Call, name: str) -> bool:
    return ast.unparse(node.func).rsplit(".", 1)[-1] == name


def _read_job(
    call: SourceCall, function: str, where: str, defaults: dict[str, Any], taken: set[str]
) -> ImportedSchedule:
    given = dict(call.kwargs)
    args = list(call.args)
    if not function:
        target = args.pop(0) if args else given.pop("func", None)
        function = target.text if isinstance(target, SourceName) else str(target)
    trigger = args.pop(0) if args else given.pop("trigger", None)
    kind, fields = _read_trigger(trigger, given)
    zone = _read_zone(fields.pop("timezone", None), defaults["zone"])
    if fields.get("end_date") is not None:
        reason = "end_date is not carried over: write the rule as an RRULE with UNTIL"
        raise InvalidInputError(reason, {"field": "end_date"})
    rule: SearchedRule | IntervalRule
    if is_cron := kind == "cron":
        rule = _read_rule(fields)
        when = to_when(rule)
    else:
        seconds = _read_interval(kind, fields)
        rule, when = IntervalRule(timedelta(seconds=seconds)), format_interval(seconds)
    options, notes = _read_choices(defaults, given, fields.get("jitter"))
    return ImportedSchedule(
        name=to_identifier(str(given.get("id") or function.replace(":", ".")), taken),
        where=where,
        source=_show(kind, fields),
        when=when,
        body=tuple(_make_body(function, given, defaults["program"])),
        zone=zone,
        rule=rule,
        start=_read_start(fields.get("start_date"), zone) if is_cron else None,
        options=options | ({"gap": "shift", "fold": "both"} if is_cron else {}),
        gap_reason=_GAP,
        miss_reason=_MISS,
        notes=tuple(notes) if is_cron else (*notes, _INTERVAL),
    )


_CHOICES = ("misfire_grace_time", "coalesce", "max_instances")
_JOB_OPTIONS = {*_CHOICES, "id", "name", "args", "kwargs", "executor", "jobstore"} | {
    "next_run_time",
    "replace_existing",
    "func",
}


def _read_trigger(trigger: Any, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of the trigger and its fields."""
    if isinstance(trigger, str):
        fields = {name: value for name, value in given.items() if name not in _JOB_OPTIONS}
        return trigger, fields
    if isinstance(trigger, SourceCall) and trigger.name == "from_crontab":
        minute, hour, day, month, weekday = str(trigger.args[0]).split()
        cron = {"minute": minute, "hour": hour, "day": day, "month": month}
        return "cron", cron | {"day_of_week": weekday} | trigger.kwargs
    kinds = {"CronTrigger": "cron", "IntervalTrigger": "interval", "DateTrigger": "date"}
    if isinstance(trigger, SourceCall) and trigger.name in kinds and not trigger.args:
        return kinds[trigger.name], dict(trigger.kwargs)
    raise InvalidInputError("its trigger is not cron or interval in plain values", {})


def _read_interval(kind: str, fields: dict[str, Any]) -> float:
    if kind != "interval":
        reason = "runs once: enqueue it with task.using(at=...)" if kind == "date" else "is unknown"
        raise InvalidInputError(f"a trigger {kind!r} {reason}", {"field": "trigger"})
    return float(sum(fields.get(name, 0) * _UNITS[name] for name in _UNITS))


def _read_start(value: Any, zone: ZoneInfo) -> datetime | None:
    """``start_date``, a text or ``datetime(...)``, as an instant."""
    if isinstance(value, SourceCall) and value.name == "datetime" and not value.kwargs:
        value = datetime(*value.args).isoformat()  # noqa: DTZ001 - a wall time of the zone
    if value is None:
        return None
    try:
        start = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("start_date is not written out", {"field": "start_date"}) from error
    return (start if start.tzinfo else start.replace(tzinfo=zone)).astimezone(UTC)


def _read_rule(fields: dict[str, Any]) -> SearchedRule:
    given = {name: str(fields[name]) for name in _CRON_FIELDS if fields.get(name) is not None}
    if given.get("year", "*") != "*":
        raise InvalidInputError("year is not carried over: give the rule an RRULE", {})
    lowest = max((_CRON_FIELDS.index(name) for name in given), default=len(_CRON_FIELDS))
    for index, name in enumerate(_CRON_FIELDS):
        # Fields below the lowest given one are at their minimum, those above it at any value.
        given.setdefault(name, _LOWEST.get(name, "*") if index > lowest else "*")
    days = [part.strip() for part in given["day"].lower().split(",")]
    nth = [match for part in days if (match := _NTH.fullmatch(part))]
    plain = ",".join(part for part in days if part != "last" and not _NTH.fullmatch(part))
    return SearchedRule(
        seconds=SECOND_FIELD.parse(given["second"]),
        minutes=MINUTE_FIELD.parse(given["minute"]),
        hours=HOUR_FIELD.parse(given["hour"]),
        days=DAY_FIELD.parse(plain or "*"),
        months=MONTH_FIELD.parse(given["month"]),
        weekdays=_WEEKDAY_FIELD.parse(given["day_of_week"]),
        weeks=None if given["week"] == "*" else _WEEK_FIELD.parse(given["week"]),
        nth=tuple((_ORDINALS[match[1]], WEEKDAYS.index(match[2])) for match in nth),
        has_last="last" in days,
    )


def _read_choices(
    defaults: dict[str, Any], given: dict[str, Any], jitter: Any
) -> tuple[dict[str, Any], list[str]]:
    """Catch-up, overlap and jitter, and what is different about them."""
    choices = {name: given.get(name, defaults.get(name)) for name in _CHOICES}
    grace = choices["misfire_grace_time"]
    is_patient = "misfire_grace_time" in given and grace is None
    notes: list[str] = []
    catch_up = "skip"
    if is_patient or (isinstance(grace, int) and grace > 60):
        catch_up = "once" if choices["coalesce"] in (None, True) else "all"
    if not is_patient:
        seconds = 1 if grace is None else grace
        limit = "a minute" if catch_up == "skip" else "any time"
        notes.append(f"a run up to {seconds} s late still started; in Rota up to {limit}")
    at_once = choices["max_instances"] or 1
    if at_once > 1:
        notes.append(f"at most {at_once} ran at once; in Rota a limit of the queue says that")
    options = {"catch_up": catch_up, "overlap": "allow" if at_once > 1 else "skip"}
    if jitter:
        options["jitter"] = format_interval(float(jitter))
        notes.append(_JITTER)
    return options, notes


def _make_body(function: str, given: dict[str, Any], program: str) -> Iterator[str]:
    module, colon, name = function.partition(":")
    if colon:
        yield f"from {module} import {name} as task"
    else:
        name = function
        yield f"from {program} import {name.partition('.')[0]}"
    yield ""
    arguments = format_arguments(given.get("args"), given.get("kwargs"))
    yield f"{'task' if colon else name}({arguments})"


def _read_zone(value: Any, default: ZoneInfo) -> ZoneInfo:
    if value is None:
        return default
    if isinstance(value, SourceCall) and value.args and value.name in ("ZoneInfo", "timezone"):
        value = value.args[0]
    if isinstance(value, SourceName) and value.text.lower().endswith("utc"):
        value = "UTC"
    if not isinstance(value, str):
        raise InvalidInputError("its time zone is not written out", {"field": "timezone"})
    return load_zone(value)


def _show(kind: str, fields: dict[str, Any]) -> str:
    return f"{kind}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"
