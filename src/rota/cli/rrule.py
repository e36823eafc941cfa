"""``rota rrule``: when a recurrence rule is due and what it means."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.occurrences import (
    END_OF_CALENDAR,
    EXPLAINED_COUNT,
    Asked,
    Listing,
    Question,
    listing_document,
    make_listing,
    print_listing,
)
from rota.cli.options import CountOption, FoldOption, GapOption, format_instant, read_instant
from rota.cli.output import PLAIN, Output, Terminal, print_table
from rota.errors import NoOccurrenceError
from rota.escape import escape
from rota.triggers.dst_notes import asked_by_rule
from rota.triggers.rrule import RecurrenceRule, parse_rrule
from rota.triggers.rrule_grammar import read_properties

app = App(name="rrule")

RuleText = Annotated[
    str,
    Parameter(
        help='A rule in quotes, such as "FREQ=WEEKLY;BYDAY=MO"; or lines of RRULE, DTSTART, '
        "RDATE and EXDATE."
    ),
]
StartOption = Annotated[
    str | None,
    Parameter(
        name="--start",
        metavar="INSTANT",
        help="The ISO 8601 instant at which the rule starts: it gives the time of day and what is "
        "counted from. Default: DTSTART, or else this minute.",
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class AskedOfRule(Asked):
    """The same, with the defaults of rules."""

    gap: GapOption = "shift"
    fold: FoldOption = "first"


@app.command(name="next")
def list_next(
    rule: RuleText,
    /,
    *,
    start: StartOption = None,
    count: CountOption = 10,
    asked: AskedOfRule = AskedOfRule(),
    output: Output = PLAIN,
) -> None:
    """List the next occurrences, in local time and UTC.

    A note says where a change of the clocks moves or repeats one, and a dim
    row where it skips one. Try:

        rota rrule next "FREQ=MONTHLY;BYDAY=-1FR" --start 2027-01-29T17:00
        rota rrule next "FREQ=DAILY;BYHOUR=1;BYMINUTE=30" --gap skip --json
    """
    question = asked.read(output.terminal)
    parsed = _parse(rule, start, question, output.terminal)
    listing = _list(parsed, question, count)
    if output.is_done({**_document(parsed, question), **listing_document(listing)}):
        return
    print_listing(output.terminal, parsed.describe(), listing)
    if len(listing.occurrences) < count:
        output.terminal.print_text("\nThe rule ends here.", "dim")


@app.command(name="explain")
def explain(
    rule: RuleText,
    /,
    *,
    start: StartOption = None,
    asked: AskedOfRule = AskedOfRule(),
    output: Output = PLAIN,
) -> None:
    """Say in words what a rule means, part by part.

    Try:

        rota rrule explain "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH"
    """
    question = asked.read(output.terminal)
    parsed = _parse(rule, start, question, output.terminal)
    listing = _list(parsed, question, EXPLAINED_COUNT)
    parts = list(_parts(parsed))
    document = _document(parsed, question)
    document["parts"] = [{"name": name, "value": value} for name, value in parts]
    if output.is_done({**document, **listing_document(listing)}):
        return
    terminal = output.terminal
    terminal.print_text(f"{parsed.describe()}\n", "bold")
    rows = [({"Part": escape(name), "Value": escape(it)}, "") for name, it in parts]
    print_table(terminal.out, rows)
    terminal.print_text()
    print_listing(terminal, "Next three", listing)


def _parse(text: str, start: str | None, question: Question, terminal: Terminal) -> RecurrenceRule:
    zone = question.chosen.zone
    starts_at = None
    if start is not None:
        starts_at = read_instant(start, zone, "--start")
    elif "DTSTART" not in text.upper():
        starts_at = terminal.clock.now().replace(second=0, microsecond=0)
    return parse_rrule(text, zone=zone, start=starts_at, gap=question.gap, fold=question.fold)


def _list(rule: RecurrenceRule, question: Question, count: int) -> Listing:
    """Up to ``count`` occurrences; NoOccurrenceError when there is not even one."""
    occurrences = list(rule.between(question.after, END_OF_CALENDAR, limit=count))
    if not occurrences:
        after = format_instant(question.after)
        raise NoOccurrenceError(f"The rule has no occurrence after {after}")
    return make_listing(occurrences, question, asked_by_rule(rule))


def _parts(rule: RecurrenceRule) -> Iterator[tuple[str, str]]:
    """The parts of the rule and the dates beside it, as they are written."""
    for line in read_properties(rule.text):
        if line.name != "RRULE":
            yield line.name, line.value.text
            continue
        for part in line.value.text.split(";"):
            name, _, value = part.partition("=")
            yield name.upper(), value


def _document(rule: RecurrenceRule, question: Question) -> dict[str, Any]:
    return {
        "rule": rule.text,
        "start": format_instant(rule.start),
        "description": rule.describe(),
        **question.to_document(),
    }
