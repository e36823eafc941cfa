"""``rota errors``: failures in groups, and their dead letters."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.options import DryRunOption, WhyOption, value
from rota.cli.output import Row, Viewer, count_of, print_facts, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.escape import escape

app = App(name="errors")

GROUP_COLUMNS = ("Id", "Attempts", "Dead", "Last seen", "Kind", "Error")

GroupArgument = Annotated[str, Parameter(metavar="GROUP", help="The id of an error group.")]


@app.command(name="list")
def list_groups(
    *,
    kind: Annotated[str | None, value("NAME", "Only errors of this kind.")] = None,
    session: ZonedSession = LOCALLY,
) -> None:
    """List failures in groups: the same kind, exception and place.

    Try:

        rota errors list
        rota errors list --kind http.request
    """
    listed = session.list_all("errors", query={"kind": kind})
    session.print_items(listed, GROUP_COLUMNS, group_row, noun="error group")


def group_row(group: dict[str, Any], viewer: Viewer) -> Row:
    """One group as a row of ``GROUP_COLUMNS``."""
    place = f" at {show_text(group['place'], 80)}" if group["place"] else ""
    cells = (
        escape(group["id"]),
        str(group["count"]),
        str(group["dead_count"]),
        viewer.relative(group["last_at"]),
        show_text(group["kind"], 40),
        f"{show_text(group['name'], 60)}{place}",
    )
    return cells, "red" if group["dead_count"] else ""


@app.command(name="show")
def show(group_id: GroupArgument, /, *, session: ZonedSession = LOCALLY) -> None:
    """Show one error group: when it was seen, and its latest job.

    Try:

        rota errors show 3f2a9c1d5e6b7a80
    """
    found = session.get("errors", group_id)
    if session.is_done(found):
        return
    viewer = session.viewer
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
    print_facts(session.terminal.out, ("Error", show_text(found["name"])), facts)


@app.command(name="retry")
def retry(
    group_id: GroupArgument,
    /,
    *,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Retry the dead letters of a group, up to 1,000.

    Try:

        rota errors retry 3f2a9c1d5e6b7a80 --why "fixed in 2.3.1"
    """
    _act(session, (group_id, "retry"), dry_run=dry_run, why=why)


@app.command(name="discard")
def discard(
    group_id: GroupArgument,
    /,
    *,
    dry_run: DryRunOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Delete the dead letters of a group for good, up to 1,000.

    The audit log keeps their errors. Try:

        rota errors discard 3f2a9c1d5e6b7a80 --why "test data"
    """
    _act(session, (group_id, "discard"), dry_run=dry_run, why=why)


def _act(session: TenantSession, steps: tuple[str, str], *, dry_run: bool, why: str | None) -> None:
    answer = session.post("errors", *steps, body={"dry_run": dry_run, "why": why})
    word = "retried" if steps[1] == "retry" else "discarded"
    count, would = answer["count"], " would be" if answer["is_dry_run"] else ""
    text = f"{count_of(count, 'dead letter')}{would} {word}"
    if answer["kept_count"]:
        text += f"; {answer['kept_count']} kept, because other jobs depend on them"
    session.print_done(answer, f"{text}{'; there are more' if answer['has_more'] else ''}.")
