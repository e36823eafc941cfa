"""``rota jobs``: what is asked for, what became of it, and what to do about it."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number

from rota.cli import help_texts
from rota.cli.operating.answers import done, print_items, tell_replacements
from rota.cli.operating.new_job import create
from rota.cli.operating.options import (
    CascadeOption,
    JobArgument,
    LimitOption,
    NewPayloadOption,
    WhyOption,
)
from rota.cli.reading.instants import choose_zone, read_instant
from rota.cli.reading.options import GivenTerminal, JsonOption, ZoneOption
from rota.cli.reading.payloads import read_json
from rota.cli.reading.place import NOWHERE, Place, converse
from rota.cli.rendering.occurrences import format_instant
from rota.cli.rendering.service.jobs import (
    ATTEMPT_COLUMNS,
    attempt_rows,
    job_columns,
    job_facts,
    job_row,
)
from rota.cli.rendering.service.moments import Viewer
from rota.cli.rendering.tables import print_table
from rota.client import Client
from rota.client.client import path_of
from rota.escape import escape
from rota.jobs import JobStatus

app = App(name="jobs")
app.command(create, name="create")
app.command("rota.cli.operating.bulk:app", name="bulk", help=help_texts.BULK)


Priority = Annotated[
    int | None, Parameter(metavar="NUMBER", validator=Number(gte=1, lte=10), help="1 to 10.")
]
Moment = Annotated[
    str | None, Parameter(metavar="INSTANT", help="ISO 8601; without an offset, wall time.")
]


@app.command(name="list")
def list_jobs(
    *,
    queue: Annotated[str | None, Parameter(metavar="NAME", help="Only of this queue.")] = None,
    status: Annotated[JobStatus | None, Parameter(help="Only with this status.")] = None,
    kind: Annotated[str | None, Parameter(metavar="NAME", help="Only of this kind.")] = None,
    match: Annotated[
        str | None, Parameter(metavar="TEXT", help="Only those in which this text is found.")
    ] = None,
    priority_min: Priority = None,
    priority_max: Priority = None,
    created_after: Moment = None,
    created_before: Moment = None,
    cursor: Annotated[
        str | None, Parameter(metavar="TEXT", help="Go on where an earlier list ended.")
    ] = None,
    limit: LimitOption = 20,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """List jobs, the newest first.

    Try:

        rota jobs list
        rota jobs list --status FAILED --queue mail
        rota jobs list --match invoice-4711 --limit 200 --json
        rota jobs list --url https://rota.example --token-file ~/.rota-token
    """
    local = choose_zone(zone).zone
    query = {
        "queue": queue,
        "status": status,
        "kind": kind,
        "text": match,
        "priority_min": priority_min,
        "priority_max": priority_max,
        "created_after": _read_moment(created_after, local, "--created-after"),
        "created_before": _read_moment(created_before, local, "--created-before"),
        "cursor": cursor,
    }
    path = "/jobs" if kind is None and match is None else "/jobs/search"
    listed = converse(terminal, place, lambda it: it.collect(path, query, limit=limit))
    viewer = Viewer(terminal.clock.now(), local)
    out = terminal.out
    print_items(
        terminal, listed, job_columns(out), lambda it: job_row(it, viewer, out), as_json=as_json
    )


@app.command(name="show")
def show(
    job_id: JobArgument,
    /,
    *,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show a job, and every attempt at it that failed.

    Try:

        rota jobs show 01890a5d-ac96-774b-bcce-b302099a8057
    """

    async def ask(client: Client) -> tuple[Any, Any]:
        job = await client.get(path_of("jobs", job_id))
        return job, (await client.get(path_of("jobs", job_id, "attempts")))["items"]

    job, attempts = converse(terminal, place, ask)
    if as_json:
        terminal.print_document({**job, "attempts": attempts})
        return
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    print_table(terminal.out, ("Job", escape(job["id"])), job_facts(job, viewer))
    if attempts:
        terminal.print_text()
        print_table(terminal.out, ATTEMPT_COLUMNS, attempt_rows(attempts, viewer))


@app.command(name="update")
def update(
    job_id: JobArgument,
    /,
    *,
    name: Annotated[str | None, Parameter(metavar="TEXT", help="What people call it.")] = None,
    queue: Annotated[str | None, Parameter(metavar="NAME", help="Its queue.")] = None,
    payload: NewPayloadOption = None,
    priority: Priority = None,
    run_at: Moment = None,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Change a job that has not ended; what is not named stays as it is.

    Try:

        rota jobs update 01890a5d-ac96-774b-bcce-b302099a8057 --priority 10
    """
    given = {
        "name": name,
        "queue": queue,
        "payload": None if payload is None else read_json(payload, "--payload"),
        "priority": priority,
        "run_at": _read_moment(run_at, choose_zone(zone).zone, "--run-at"),
    }
    body = {key: value for key, value in given.items() if value is not None}
    job = converse(terminal, place, lambda it: it.ask("PUT", path_of("jobs", job_id), body=body))
    done(terminal, job, f"Changed {job['id']}.", as_json=as_json)


@app.command(name="delete")
def delete(
    job_id: JobArgument,
    /,
    *,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Delete a job that no other job depends on.

    Try:

        rota jobs delete 01890a5d-ac96-774b-bcce-b302099a8057
    """
    converse(terminal, place, lambda it: it.ask("DELETE", path_of("jobs", job_id)))
    done(terminal, {"id": job_id, "deleted": True}, f"Deleted {job_id}.", as_json=as_json)


@app.command(name="cancel")
def cancel(
    job_id: JobArgument,
    /,
    *,
    only_this: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Of a series: this occurrence, and not the series.",
        ),
    ] = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Call off a job, also one that runs; with it its series, if it is of one.

    Try:

        rota jobs cancel 01890a5d-ac96-774b-bcce-b302099a8057 --why "sent twice"
    """
    ask = _asking("cancel", job_id, why, {"ends_series": not only_this})
    job = converse(terminal, place, ask)
    done(terminal, job, f"Called off {job_id}.", as_json=as_json)


@app.command(name="retry")
def retry(
    job_id: JobArgument,
    /,
    *,
    cascade: CascadeOption = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Put a new job in the place of one that failed for good.

    Try:

        rota jobs retry 01890a5d-ac96-774b-bcce-b302099a8057 --cascade
    """
    answer = converse(terminal, place, _asking("retry", job_id, why, {"cascade": cascade}))
    done(terminal, answer, *(f"{it}." for it in tell_replacements(answer)), as_json=as_json)


@app.command(name="run-now")
def run_now(
    job_id: JobArgument,
    /,
    *,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Let a job run now that is due later.

    Try:

        rota jobs run-now 01890a5d-ac96-774b-bcce-b302099a8057
    """
    job = converse(terminal, place, _asking("run-now", job_id, why))
    done(terminal, job, f"Due now: {job_id}.", as_json=as_json)


def _asking(
    verb: str, job_id: str, why: str | None, query: dict[str, bool] | None = None
) -> Callable[[Client], Awaitable[Any]]:
    return lambda client: client.post(path_of("jobs", job_id, verb), {"why": why}, query)


def _read_moment(text: str | None, zone: Any, option: str) -> str | None:
    instant: datetime | None = None if text is None else read_instant(text, zone, option)
    return None if instant is None else format_instant(instant)
