"""A recurrence, from a record or from a mapping, with its trigger tried out."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

import msgspec

from rota.errors import InvalidInputError, InvalidJobError, InvalidZoneError, NoOccurrenceError
from rota.jobs.record import Overlap, Recurrence
from rota.jobs.recurrence import first_occurrence
from rota.jobs.validation.fields import read_instant, read_number, require, type_name
from rota.triggers.rrule import parse_rrule
from rota.triggers.zone import Fold, Gap, load_zone

MAX_COUNT = 100_000
LONGEST_TEXT = 8_192

_TEXTS = ("cron", "rrule", "interval")
_SECOND = timedelta(seconds=1)


def read_recurrence(value: object, now: datetime) -> tuple[Recurrence, datetime]:
    """The recurrence as it is kept, and its first occurrence.

    Left out, ``start`` is the DTSTART of the rule's text, or else now. It is moved up to a whole
    second, so that no occurrence is before it.
    """
    fields = _fields_of(value)
    trigger = _only_text(fields)
    zone = _read_zone(fields["zone"])
    start = _read_start(fields, trigger, zone, now)
    recurrence = Recurrence(
        cron=fields["cron"],
        rrule=fields["rrule"],
        interval=fields["interval"],
        zone=zone,
        start=-(-start.microsecond // 1_000_000) * _SECOND + start.replace(microsecond=0),
        until=_read_optional_instant(fields["until"], "recurrence.until"),
        count=_read_count(fields["count"]),
        gap=_read_choice(fields["gap"], "recurrence.gap", get_args(Gap)),
        fold=_read_choice(fields["fold"], "recurrence.fold", get_args(Fold)),
        overlap=_read_overlap(fields["overlap"]),
    )
    return recurrence, _read_first(recurrence, trigger)


def _fields_of(value: object) -> dict[str, Any]:
    defaults = dict.fromkeys(Recurrence.__struct_fields__) | {"zone": "UTC", "overlap": "skip"}
    if isinstance(value, Recurrence):
        return msgspec.structs.asdict(value)
    if not isinstance(value, Mapping):
        raise InvalidJobError("recurrence", f"must be an object, got {type_name(value)}")
    for name in value:
        if name not in defaults:
            raise InvalidJobError(f"recurrence.{str(name)[:40]}", "is not a field")
    return defaults | dict(value)


def _only_text(fields: Mapping[str, Any]) -> str:
    given = [name for name in _TEXTS if fields[name] is not None]
    if len(given) != 1:
        raise InvalidJobError("recurrence", f"must have exactly one of {', '.join(_TEXTS)}")
    field = f"recurrence.{given[0]}"
    text = require(str, fields[given[0]], field, "a text")
    if not 1 <= len(text) <= LONGEST_TEXT:
        raise InvalidJobError(field, f"must have 1 to {LONGEST_TEXT} characters, got {len(text)}")
    return given[0]


def _read_start(fields: Mapping[str, Any], trigger: str, zone: str, now: datetime) -> datetime:
    if fields["start"] is not None:
        return read_instant(fields["start"], "recurrence.start")
    if trigger == "rrule" and "DTSTART" in fields["rrule"].upper():
        try:
            return parse_rrule(fields["rrule"], zone=load_zone(zone)).start
        except InvalidInputError as error:
            raise InvalidJobError("recurrence.rrule", f"is refused: {error.message}") from error
    return now


def _read_first(recurrence: Recurrence, trigger: str) -> datetime:
    try:
        first = first_occurrence(recurrence)
    except (InvalidInputError, NoOccurrenceError) as error:
        raise InvalidJobError(f"recurrence.{trigger}", f"is refused: {error.message}") from error
    if first is None:
        raise InvalidJobError("recurrence", "has no occurrence between its start and its end")
    return first


def _read_zone(value: object) -> str:
    zone = require(str, value, "recurrence.zone", "the name of a time zone")
    try:
        load_zone(zone)
    except InvalidZoneError as error:
        raise InvalidJobError("recurrence.zone", f"is refused: {error.message}") from error
    return zone


def _read_overlap(value: object) -> Overlap:
    choice: Overlap | None = _read_choice(value, "recurrence.overlap", get_args(Overlap))
    return choice or "skip"


def _read_optional_instant(value: object, field: str) -> datetime | None:
    return None if value is None else read_instant(value, field)


def _read_count(value: object) -> int | None:
    return None if value is None else read_number(value, "recurrence.count", 1, MAX_COUNT)


def _read_choice(value: object, field: str, choices: tuple[str, ...]) -> Any:
    if value is None or value in choices:
        return value
    raise InvalidJobError(field, f"must be one of {', '.join(choices)}")
