"""``rota queues`` and ``rota limits``: how full queues are, pauses, and how much may run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.options import WhyOption, flag, number, read_duration, value
from rota.cli.output import NOTHING, Row, Viewer, format_seconds, print_facts, show_text
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.errors import InvalidInputError, invalid
from rota.escape import escape

app = App(name="queues")


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
    session.print_items(listed, queue_row, noun="queue")


def queue_row(queue: dict[str, Any], viewer: Viewer) -> Row:
    cells = {
        "Queue": escape(queue["queue"]),
        "Due": str(queue["due_count"]),
        "Oldest": viewer.relative(queue["oldest_due_at"]),
        "Running": f"{queue['running_count']}/{queue['slot_count']}",
        "Not due": str(queue["later_count"]),
        "Dead": str(queue["dead_count"]),
        "Per min": f"{queue['per_minute']:.1f}",
        "State": _describe_state(queue, viewer),
    }
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


limits = App(name="limits")

HIGHEST = 1_000_000_000


@Parameter(name="*", group="Which jobs")
@dataclass(frozen=True)
class LimitScope:
    """The jobs that a limit applies to."""

    queue: Annotated[str | None, value("NAME", "Jobs of this queue only.")] = None
    all_tenants: Annotated[bool, flag("All tenants together; on a server, for admins.")] = False

    @property
    def whose(self) -> str:
        return "all" if self.all_tenants else "own"


def describe_limit(limit: dict[str, Any]) -> str:
    """A limit in words, as ``rota queues`` shows it."""
    parts = []
    if limit["running"] is not None:
        parts.append(f"at most {limit['running']} running")
    if limit["rate_count"] is not None:
        per = format_seconds(limit["rate_seconds"])
        parts.append(f"{limit['rate_count']} starts in {per}")
    if limit["ageing_seconds"] is not None:
        parts.append(f"priority +1 every {format_seconds(limit['ageing_seconds'])}")
    return ", ".join(parts) + ("" if limit["whose"] == "own" else " (all tenants)")


def limit_row(limit: dict[str, Any]) -> Row:
    rate = limit["rate"] or {"count": None, "per_seconds": None}
    flat = {
        **limit,
        "whose": "own",
        "rate_count": rate["count"],
        "rate_seconds": rate["per_seconds"],
    }
    whose = "all tenants" if limit["whose"] == "all" else "this tenant"
    texts = [describe_limit(flat), "paused" if limit.get("pause") else ""]
    said = ", ".join(filter(None, texts))
    return {"Whose": whose, "Queue": escape(limit["queue"] or "every queue"), "Limit": said}, ""


@limits.command(name="list")
def list_limits(*, session: TenantSession = HERE) -> None:
    """List the limits that apply to a tenant: its own, and those of all tenants.

    Try:

        rota limits list
    """
    listed = session.list_all("limits")
    session.print_items(listed, lambda it, _: limit_row(it), noun="limit")


@Parameter(name="*", group="Limits")
@dataclass(frozen=True)
class Wanted:
    """What is limited; at least one of these."""

    running: Annotated[
        int | None, number(0, HIGHEST, "How many may run at once, over all workers; 0: none.")
    ] = None
    rate: Annotated[
        str | None, value("COUNT/TIME", "How many may start in a time, such as 100/1m.")
    ] = None
    burst: Annotated[
        int | None, number(1, HIGHEST, "How many of a rate may start at once. Default: all.")
    ] = None
    ageing: Annotated[
        str | None,
        value(
            "TIME",
            "For a queue of all tenants: a job gains 1 priority each time it has waited this long.",
        ),
    ] = None


@limits.command(name="set")
def set_limit(
    *,
    scope: LimitScope = LimitScope(),
    wanted: Wanted = Wanted(),
    why: WhyOption = None,
    session: TenantSession = HERE,
) -> None:
    """Set the limit of a tenant or queue; it replaces the earlier one.

    Workers notice within seconds. A paused queue stays paused. Try:

        rota limits set --queue mail --running 5
        rota limits set --queue sms --rate 100/1m --burst 10 --all-tenants
    """
    if wanted == Wanted():
        message = "give at least one of --running, --rate and --ageing"
        raise InvalidInputError(message, {"field": "--running"})
    if wanted.burst is not None and wanted.rate is None:
        raise invalid("--burst", "needs --rate")
    body = {
        "whose": scope.whose,
        "queue": scope.queue,
        "running": wanted.running,
        "rate": None if wanted.rate is None else _read_rate(wanted.rate, wanted.burst),
        "ageing_seconds": _read_seconds(wanted.ageing, "--ageing"),
        "why": why,
    }
    found = session.ask("PUT", "limits", body=body, makes=True)
    whose, queue, limit = limit_row(found)[0].values()
    session.print_done(found, f"Limit of {whose}, {queue}: {limit}.")


def _read_rate(text: str, burst: int | None) -> dict[str, Any]:
    count, slash, per = text.partition("/")
    try:
        if not slash or not count.isdigit():
            raise invalid("--rate", "is not a count and a time")
        seconds = _read_seconds(per if per[:1].isdigit() else f"1{per}", "--rate")
    except InvalidInputError as error:
        reason = f'"{text:.40}" is not a rate; write a count and a time, such as 100/1m'
        raise invalid("--rate", reason) from error
    return {"count": int(count), "per_seconds": seconds, "burst": burst}


def _read_seconds(text: str | None, option: str) -> int | None:
    return None if text is None else round(read_duration(text, option).total_seconds())


@limits.command(name="clear")
def clear_limit(*, scope: LimitScope = LimitScope(), session: TenantSession = HERE) -> None:
    """Clear the limit of a tenant or queue, if there is one.

    Try:

        rota limits clear --queue mail
    """
    query = {"whose": scope.whose, "queue": scope.queue}
    session.ask("DELETE", "limits", query=query)
    session.print_done({"cleared": True}, "No limit.")
