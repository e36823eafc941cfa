"""``rota limits``: how many jobs of a tenant or queue may run at once, and start in a time."""

from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.arguments import read_duration
from rota.cli.options import WhyOption, flag, number, value
from rota.cli.output import Row, format_seconds
from rota.cli.session import HERE, TenantSession
from rota.errors import InvalidInputError, invalid
from rota.escape import escape

app = App(name="limits")

LIMIT_COLUMNS = ("Whose", "Queue", "Limit")
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
    """One limit as a row of ``LIMIT_COLUMNS``."""
    rate = limit["rate"] or {"count": None, "per_seconds": None}
    flat = {
        **limit,
        "whose": "own",
        "rate_count": rate["count"],
        "rate_seconds": rate["per_seconds"],
    }
    whose = "all tenants" if limit["whose"] == "all" else "this tenant"
    texts = [describe_limit(flat), "paused" if limit.get("pause") else ""]
    return (whose, escape(limit["queue"] or "every queue"), ", ".join(filter(None, texts))), ""


@app.command(name="list")
def list_limits(*, session: TenantSession = HERE) -> None:
    """List the limits that apply to a tenant: its own, and those of all tenants.

    Try:

        rota limits list
    """
    listed = session.list_all("limits")
    session.print_items(listed, LIMIT_COLUMNS, lambda it, _: limit_row(it), noun="limit")


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


@app.command(name="set")
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
    cells, _ = limit_row(found)
    session.print_done(found, f"Limit of {cells[0]}, {cells[1]}: {cells[2]}.")


def _read_rate(text: str, burst: int | None) -> dict[str, Any]:
    count, slash, per = text.partition("/")
    if not slash or not count.isdigit():
        raise invalid(
            "--rate", f'"{text:.40}" is not a rate; write a count and a time, such as 100/1m'
        )
    seconds = _read_seconds(per if per[:1].isdigit() else f"1{per}", "--rate")
    return {"count": int(count), "per_seconds": seconds, "burst": burst}


def _read_seconds(text: str | None, option: str) -> int | None:
    return None if text is None else round(read_duration(text, option).total_seconds())


@app.command(name="clear")
def clear_limit(*, scope: LimitScope = LimitScope(), session: TenantSession = HERE) -> None:
    """Clear the limit of a tenant or queue, if there is one.

    Try:

        rota limits clear --queue mail
    """
    query = {"whose": scope.whose, "queue": scope.queue}
    session.ask("DELETE", "limits", query=query)
    session.print_done({"cleared": True}, "No limit.")
