"""``rota errors``: failures in groups, and their dead letters."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.arguments import choose_zone
from rota.cli.connection import converse
from rota.cli.options import GivenTerminal, JsonOption, WhyOption, ZoneOption, flag, value
from rota.cli.output import Row, Terminal, Viewer, done, print_items, print_table, show_text
from rota.cli.place import NOWHERE, Place
from rota.client.client import path_of
from rota.escape import escape

app = App(name="errors")

GROUP_COLUMNS = ("Id", "Attempts", "Dead", "Last seen", "Kind", "Error")

GroupArgument = Annotated[str, Parameter(metavar="GROUP", help="The id of an error group.")]
DryRunOption = Annotated[bool, flag("Only say how many there are.")]


@app.command(name="list")
def list_groups(
    *,
    kind: Annotated[str | None, value("NAME", "Only of this kind.")] = None,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """List failures in groups: the same kind, exception and place.

    Try:

        rota errors list
        rota errors list --kind http.request
    """
    found = converse(terminal, place, lambda it: it.get("/errors", {"kind": kind}))
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    print_items(
        terminal,
        (found["items"], None),
        GROUP_COLUMNS,
        lambda it: group_row(it, viewer),
        as_json=as_json,
        noun="error group",
    )


def group_row(group: dict[str, Any], viewer: Viewer) -> Row:
    """One group as a row of ``GROUP_COLUMNS``."""
    place = f" at {show_text(group['place'], 80)}" if group["place"] else ""
    cells = (
        escape(group["id"]),
        str(group["count"]),
        str(group["dead_count"]),
        viewer.tell(group["last_at"]),
        show_text(group["kind"], 40),
        f"{show_text(group['name'], 60)}{place}",
    )
    return cells, "red" if group["dead_count"] else ""


@app.command(name="show")
def show(
    group_id: GroupArgument,
    /,
    *,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Show one error group: when it was seen, and a job that failed so.

    Try:

        rota errors show 3f2a9c1d5e6b7a80
    """
    found = converse(terminal, place, lambda it: it.get(path_of("errors", group_id)))
    if as_json:
        terminal.print_document(found)
        return
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    more = " or more" if found["has_more_letters"] else ""
    facts = [
        ("kind", show_text(found["kind"])),
        ("place", show_text(found["place"]) or "unknown"),
        ("message", show_text(found["message"], 300)),
        ("attempts", f"{found['count']}, {found['dead_count']} the last of their job"),
        ("first seen", viewer.show(found["first_at"])),
        ("last seen", viewer.show(found["last_at"])),
        ("latest job", escape(found["job_id"])),
        ("dead letters", f"{len(found['letter_ids'])}{more}"),
    ]
    print_table(terminal.out, ("Error", show_text(found["name"])), [(it, "") for it in facts])


@app.command(name="retry")
def retry(
    group_id: GroupArgument,
    /,
    *,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Retry the dead letters of a group, up to 1,000.

    Try:

        rota errors retry 3f2a9c1d5e6b7a80 --why "fixed in 2.3.1"
    """
    _act(terminal, place, (group_id, "retry"), {"dry_run": dry_run, "why": why}, as_json=as_json)


@app.command(name="discard")
def discard(
    group_id: GroupArgument,
    /,
    *,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Delete the dead letters of a group for good, up to 1,000.

    The audit log keeps their errors. Try:

        rota errors discard 3f2a9c1d5e6b7a80 --why "test data"
    """
    _act(terminal, place, (group_id, "discard"), {"dry_run": dry_run, "why": why}, as_json=as_json)


def _act(
    terminal: Terminal,
    place: Place,
    steps: tuple[str, str],
    body: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    answer = converse(terminal, place, lambda it: it.post(path_of("errors", *steps), body))
    word = "retried" if steps[1] == "retry" else "discarded"
    count, would = answer["count"], " would be" if answer["is_dry_run"] else ""
    text = f"{count} dead {'letter' if count == 1 else 'letters'}{would} {word}"
    if answer["kept_count"]:
        text += f"; {answer['kept_count']} kept, because other jobs depend on them"
    done(
        terminal,
        answer,
        f"{text}{'; there are more' if answer['has_more'] else ''}.",
        as_json=as_json,
    )
