"""The fields of a cron expression, each with all the values it stands for."""

from collections.abc import Callable, Iterator

from rich.console import Console

from rota.cli.rendering.occurrences import WEEKDAYS
from rota.cli.rendering.tables import print_table
from rota.triggers.cron.fields import (
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
    rows = [((field.name, _values(field, bits)), "") for field, bits in _fields(fields)]
    print_table(console, ("Field", "Values"), rows)


def fields_document(fields: CronFields) -> dict[str, list[int]]:
    """The values of every field as numbers; Sunday is 0."""
    return {field.name: numbers_in(bits) for field, bits in _fields(fields)}


def _fields(fields: CronFields) -> Iterator[tuple[FieldRange, int]]:
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
