"""``rota cron``: when an expression is due and what it means."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console

from rota.cli.crontab import check, is_extended
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
from rota.cli.options import CountOption, DialectOption
from rota.cli.output import PLAIN, Output, print_table
from rota.errors import InvalidCronExpressionError
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
    rows = [((field.name, _values(field, bits)), "") for field, bits in _list_fields(fields)]
    print_table(console, ("Field", "Values"), rows)


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
app.command(check, name="check")

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
