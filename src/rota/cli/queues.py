"""``rota queues``: how full queues are, pause and resume."""

from collections.abc import Iterator
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.limits import describe_limit
from rota.cli.options import WhyOption, flag
from rota.cli.output import NOTHING, Row, Viewer, format_seconds, print_facts, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.escape import escape

app = App(name="queues")

QUEUE_COLUMNS = ("Queue", "Due", "Oldest", "Running", "Not due", "Dead", "Per min", "State")

QueueArgument = Annotated[str, Parameter(metavar="QUEUE", help="The name of a queue.")]
AllTenantsOption = Annotated[
    bool, flag("For all tenants; on a server this needs an admin's token.")
]


@app.command(name="list")
def list_queues(*, session: ZonedSession = LOCALLY) -> None:
    """List queues: what is due, since when, what runs, ends and fails.

    Try:

        rota queues list
    """
    listed = session.list_all("queues")
    session.print_items(listed, QUEUE_COLUMNS, queue_row, noun="queue")


def queue_row(queue: dict[str, Any], viewer: Viewer) -> Row:
    """One queue as a row of ``QUEUE_COLUMNS``."""
    cells = (
        escape(queue["queue"]),
        str(queue["due_count"]),
        viewer.relative(queue["oldest_due_at"]),
        f"{queue['running_count']}/{queue['slot_count']}",
        str(queue["later_count"]),
        str(queue["dead_count"]),
        f"{queue['per_minute']:.1f}",
        _describe_state(queue, viewer),
    )
    if queue["pauses"]:
        return cells, "yellow"
    return cells, "red" if queue["due_count"] and not queue["worker_count"] else ""


def _describe_state(queue: dict[str, Any], viewer: Viewer) -> str:
    if queue["pauses"]:
        return "; ".join(describe_pause(it, viewer) for it in queue["pauses"])
    if queue["stalled_count"]:
        return f"{queue['stalled_count']} stalled"
    if queue["due_count"] and not queue["worker_count"]:
        return "no worker"
    return "; ".join(describe_limit(it) for it in queue["limits"]) or NOTHING


def describe_pause(pause: dict[str, Any], viewer: Viewer) -> str:
    whose = "" if pause["whose"] == "own" else " for all tenants"
    by = f" by {show_text(pause['who'], 40)}" if pause["who"] else ""
    why = f": {show_text(pause['why'], 100)}" if pause["why"] else ""
    return f"paused{whose} {viewer.relative(pause['at'])}{by}{why}"


@app.command(name="show")
def show(queue: QueueArgument, /, *, session: ZonedSession = LOCALLY) -> None:
    """Show one queue: numbers, limits and pauses.

    Try:

        rota queues show mail
    """
    found = session.get("queues", queue)
    if session.is_done(found):
        return
    facts = _list_facts(found, session.viewer)
    print_facts(session.terminal.out, ("Queue", escape(found["queue"])), facts)


def _list_facts(queue: dict[str, Any], viewer: Viewer) -> Iterator[tuple[str, str]]:
    oldest = f", the oldest {viewer.relative(queue['oldest_due_at'])}" if queue["due_count"] else ""
    yield "due", f"{queue['due_count']}{oldest}"
    yield "running", f"{queue['running_count']} of {queue['slot_count']} at once"
    yield "stalled", str(queue["stalled_count"])
    yield "not due", str(queue["later_count"])
    yield "dead", str(queue["dead_count"])
    yield "workers", str(queue["worker_count"])
    yield "last 15 min", f"{queue['succeeded_count']} succeeded, {queue['failed_count']} failed"
    if queue["due_count"] and queue["empty_in_seconds"] is not None:
        yield "empty in", format_seconds(queue["empty_in_seconds"])
    yield from (("limit", describe_limit(it)) for it in queue["limits"])
    yield from (("pause", describe_pause(it, viewer)) for it in queue["pauses"])


@app.command(name="pause")
def pause(
    queue: QueueArgument,
    /,
    *,
    all_tenants: AllTenantsOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Start no more jobs of a queue until it is resumed; running jobs finish.

    Workers notice within seconds. Try:

        rota queues pause mail --why "the mail server is down"
    """
    _change(session, queue, "pause", all_tenants=all_tenants, why=why)


@app.command(name="resume")
def resume(
    queue: QueueArgument,
    /,
    *,
    all_tenants: AllTenantsOption = False,
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Start jobs of a queue again.

    Try:

        rota queues resume mail
    """
    _change(session, queue, "resume", all_tenants=all_tenants, why=why)


def _change(
    session: TenantSession, queue: str, verb: str, *, all_tenants: bool, why: str | None
) -> None:
    body = {"whose": "all" if all_tenants else "own", "why": why}
    found = session.post("queues", queue, verb, body=body)
    whose = " for all tenants" if all_tenants else ""
    word = "is paused" if verb == "pause" else "is resumed"
    still = " It stays paused for all tenants." if verb == "resume" and found["pauses"] else ""
    session.print_done(found, f"Queue {queue} {word}{whose}; {found['due_count']} due.{still}")
