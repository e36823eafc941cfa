"""``rota series``: what recurs, when it does next, and how to hold it back."""

from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from rota.cli.operating.answers import done, print_items
from rota.cli.operating.options import LimitOption, PayloadOption, WhyOption
from rota.cli.operating.recurrence import Rule, read_rule
from rota.cli.reading.ids import check_argument
from rota.cli.reading.instants import choose_zone
from rota.cli.reading.options import GivenTerminal, JsonOption, ZoneOption
from rota.cli.reading.payloads import read_json
from rota.cli.reading.place import NOWHERE, Place, converse
from rota.cli.rendering.service.moments import Viewer
from rota.cli.rendering.service.series import (
    RUN_COLUMNS,
    SERIES_COLUMNS,
    print_upcoming,
    run_row,
    series_facts,
    series_row,
)
from rota.cli.rendering.tables import print_table
from rota.cli.rendering.terminal import Terminal
from rota.client.client import path_of
from rota.escape import escape

app = App(name="series")

SeriesArgument = Annotated[
    str,
    Parameter(
        metavar="ID", validator=check_argument, help="The id of a series, or of any job of it."
    ),
]
DEFAULT_RULE = Rule()


@app.command(name="list")
def list_series(
    *,
    limit: LimitOption = 50,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """List what recurs: when in words, when next, and how it went last.

    Try:

        rota series list
        rota series list --tenant guild-7 --json
    """
    listed = converse(terminal, place, lambda it: it.collect("/series", limit=limit))
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    print_items(
        terminal,
        listed,
        SERIES_COLUMNS,
        lambda it: series_row(it, viewer),
        as_json=as_json,
        noun="series",
    )


@app.command(name="show")
def show(
    series_id: SeriesArgument,
    /,
    *,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show a series: its rule in words, its next occurrences and its last runs.

    Try:

        rota series show 01890a5d-ac96-774b-bcce-b302099a8057
    """
    detail = converse(terminal, place, lambda it: it.get(path_of("series", series_id)))
    if as_json:
        terminal.print_document(detail)
        return
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    series, runs = detail["series"], detail["runs"]
    print_table(terminal.out, ("Series", escape(series["id"])), series_facts(series, viewer))
    terminal.print_text()
    print_upcoming(terminal, series)
    if runs:
        terminal.print_text()
        print_table(terminal.out, RUN_COLUMNS, [run_row(it, viewer) for it in runs])


@app.command(name="create")
def create(
    name: Annotated[str, Parameter(metavar="NAME", help="What people call it.")],
    /,
    *,
    rule: Rule = DEFAULT_RULE,
    kind: Annotated[
        str | None, Parameter(metavar="NAME", help="Which handler runs it. Default: the name.")
    ] = None,
    queue: Annotated[str, Parameter(metavar="NAME", help="Which queue it waits in.")] = "default",
    payload: PayloadOption = "{}",
    priority: Annotated[
        int,
        Parameter(metavar="NUMBER", validator=Number(gte=1, lte=10), help="1 to 10, 10 first."),
    ] = 5,
    key: Annotated[
        str | None,
        Parameter(metavar="TEXT", help="Makes it the only one of its kind with this key."),
    ] = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Create a series: a job that comes again and again.

    Exactly one of --cron, --rrule and --every says when, on the clock of
    --zone. Try:

        rota series create digest --cron "0 9 * * mon-fri" --zone Europe/London
        rota series create sync --every 15m --payload '{"table": "orders"}'
        rota series create standup --rrule "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO"
    """
    body: dict[str, Any] = {
        "name": name,
        "queue": queue,
        "payload": read_json(payload, "--payload"),
        "priority": priority,
        "recurrence": read_rule(rule),
    }
    body |= {
        field: value
        for field, value in (("kind", kind), ("idempotency_key", key))
        if value is not None
    }
    job, is_new = converse(terminal, place, lambda it: it.create("/jobs", body), makes=True)
    viewer = Viewer(terminal.clock.now(), choose_zone(rule.zone).zone)
    became = "Created" if is_new else "There already is"
    text = f"{became} series {job['id']}: first at {viewer.show(job['run_at'])}."
    done(terminal, job, text, as_json=as_json)


@app.command(name="preview")
def preview(
    *,
    rule: Rule = DEFAULT_RULE,
    count: Annotated[
        int,
        Parameter(
            name=["--count", "-n"],
            metavar="NUMBER",
            validator=Number(gte=1, lte=100),
            help="How many occurrences.",
        ),
    ] = 5,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show when a series would occur, and what changes of the clocks do to it.

    Try:

        rota series preview --cron "30 1 * * *" --zone Europe/London -n 10
    """
    order = {"recurrence": read_rule(rule), "count": count}
    shown = converse(terminal, place, lambda it: it.post("/series/preview", order), makes=True)
    if as_json:
        terminal.print_document(shown)
        return
    terminal.print_text(escape(shown["description"]), "bold")
    print_upcoming(terminal, shown)
    if shown["is_complete"]:
        terminal.print_text("And no more after that.", "dim")


@app.command(name="pause")
def pause(
    series_id: SeriesArgument,
    /,
    *,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Hold a series back until it is resumed; what runs is finished.

    Try:

        rota series pause 01890a5d-ac96-774b-bcce-b302099a8057 --why "no data"
    """
    _act(terminal, place, (series_id, "pause", "Paused"), {"why": why}, as_json=as_json)


@app.command(name="resume")
def resume(
    series_id: SeriesArgument,
    /,
    *,
    catch_up: Annotated[
        bool,
        Parameter(
            negative="", show_default=False, help="Run the first occurrence that was missed now."
        ),
    ] = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Let a series go on with its next occurrence.

    Try:

        rota series resume 01890a5d-ac96-774b-bcce-b302099a8057 --catch-up
    """
    query = {"catch_up": catch_up}
    _act(terminal, place, (series_id, "resume", "Resumed"), {"why": why}, query, as_json=as_json)


@app.command(name="cancel")
def cancel(
    series_id: SeriesArgument,
    /,
    *,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """End a series for good.

    Try:

        rota series cancel 01890a5d-ac96-774b-bcce-b302099a8057
    """
    _act(terminal, place, (series_id, "cancel", "Ended"), {"why": why}, as_json=as_json)


def _act(
    terminal: Terminal,
    place: Place,
    deed: tuple[str, str, str],
    body: dict[str, Any],
    query: dict[str, bool] | None = None,
    *,
    as_json: bool,
) -> None:
    series_id, verb, word = deed
    path = path_of("series", series_id, verb)
    detail = converse(terminal, place, lambda it: it.post(path, body, query))
    done(terminal, detail, f"{word}: {detail['series']['name']}.", as_json=as_json)
