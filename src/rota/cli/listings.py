"""Commands that are a list: ``rota workers``, ``tenants``, ``audit`` and ``kinds``."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from rota.cli.options import LimitOption, check_ids, number, value
from rota.cli.output import (
    NOTHING,
    Row,
    Viewer,
    format_milliseconds,
    format_seconds,
    print_facts,
    show_text,
)
from rota.cli.session import HERE, LOCALLY, TenantSession, ZonedSession
from rota.errors import NotFoundError
from rota.escape import escape, escape_json

WORKER_COLUMNS = (
    "Worker", "Host", "Version", "Running", "Seen", "Started", "Queues", "Labels", "Kinds",
)  # fmt: skip
_LONGEST = 60


def workers(*, session: TenantSession = HERE) -> None:
    """List the workers."""
    session.print_items(session.list_all("workers"), WORKER_COLUMNS, worker_row, noun="worker")


def worker_row(worker: dict[str, Any], viewer: Viewer) -> Row:
    """One worker as a row of ``WORKER_COLUMNS``."""
    queues = worker["queues"]
    cells = (
        show_text(worker["id"], _LONGEST),
        show_text(worker["host"], _LONGEST),
        show_text(worker["version"], _LONGEST),
        _describe_load(worker),
        viewer.relative(worker["seen_at"]),
        viewer.relative(worker["started_at"]),
        "any" if queues is None else _join(queues),
        _join(worker.get("labels", ())),
        _join(worker["kinds"]),
    )
    return cells, ""


def _describe_load(worker: dict[str, Any]) -> str:
    ahead = f", {worker['ahead_count']} leased ahead" if worker["ahead_count"] else ""
    return f"{worker['busy_count']}/{worker['concurrency']}{ahead}"


def _join(names: Sequence[str]) -> str:
    return show_text(" ".join(names) or NOTHING)


TENANT_COLUMNS = (
    "Tenant", "Busy", "Share", "Succeeded", "Failed", "Due", "Oldest", "Running", "Dead", "Wait",
)  # fmt: skip


def tenants(
    *,
    hours: Annotated[int, number(1, 168, "How many of the last hours to compare.")] = 1,
    session: ZonedSession = LOCALLY,
) -> None:
    """Compare tenants."""
    listed = session.list_all("tenants", query={"hours": hours})
    session.print_items(listed, TENANT_COLUMNS, tenant_row, noun="tenant")


def tenant_row(tenant: dict[str, Any], viewer: Viewer) -> Row:
    """One tenant as a row of ``TENANT_COLUMNS``."""
    wait = tenant["mean_wait_ms"]
    cells = (
        show_text(tenant["tenant"], 40),
        format_seconds(tenant["busy_seconds"]),
        f"{tenant['busy_share']:.0%}",
        str(tenant["succeeded"]),
        str(tenant["failed"]),
        _number(tenant["due_count"]),
        viewer.relative(tenant["oldest_due_at"]),
        _number(tenant["running_count"]),
        _number(tenant["dead_letter_count"]),
        NOTHING if wait is None else format_milliseconds(wait),
    )
    return cells, "red" if tenant["dead_letter_count"] else ""


def _number(count: int | None) -> str:
    return NOTHING if count is None else str(count)


ENTRY_COLUMNS = ("When", "Who", "Action", "Jobs", "Details")
_LONGEST_NAME = 60
_LONGEST_DETAILS = 300


def audit(
    *,
    action: Annotated[
        str | None, value("NAME", "Only entries with this action, such as pause_queue.")
    ] = None,
    job: Annotated[
        str | None,
        Parameter(
            metavar="ID",
            validator=check_ids("--job"),
            help="Only entries about this job. The beginning of the id is enough, unless the job "
            "is deleted.",
        ),
    ] = None,
    limit: LimitOption = 20,
    session: ZonedSession = LOCALLY,
) -> None:
    """List entries of the audit log."""
    job_id = None if job is None else session.find_job(job, "--job")
    listed = session.collect("audit", query={"action": action, "job_id": job_id}, limit=limit)
    session.print_items(listed, ENTRY_COLUMNS, entry_row, noun="entry")


def entry_row(entry: dict[str, Any], viewer: Viewer) -> Row:
    """One entry as a row of ``ENTRY_COLUMNS``."""
    cells = (
        viewer.show(entry["at"]),
        show_text(entry["who"], _LONGEST_NAME),
        show_text(entry["action"], _LONGEST_NAME),
        _name_jobs(entry.get("job_ids", ())),
        _describe(entry["why"], entry.get("details", {})),
    )
    return cells, ""


def _name_jobs(ids: Sequence[str]) -> str:
    if not ids:
        return NOTHING
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"{show_text(ids[0])}{more}"


def _describe(why: str, details: Mapping[str, Any]) -> str:
    said = [f"why: {why}"] if why else []
    said += [
        f"{name}: {it if isinstance(it, str) else json.dumps(it)}"
        for name, it in details.items()
        if it is not None
    ]
    return show_text(", ".join(said) or NOTHING, _LONGEST_DETAILS)


kinds = App(name="kinds")

KIND_COLUMNS = ("Kind", "Served", "Queue", "Priority", "Notifies", "Payload", "About")
_LONGEST = 60


@kinds.command(name="list")
def list_kinds(*, session: TenantSession = HERE) -> None:
    """List the kinds that apps declare or workers serve, by name.

    Try:

        rota kinds list
        rota kinds list --json
    """
    listed = session.list_all("kinds")
    session.print_items(listed, KIND_COLUMNS, lambda it, _: _kind_row(it), noun="kind")


@kinds.command(name="show")
def show(
    kind: Annotated[str, value("KIND", "The name of the kind.")],
    /,
    *,
    session: TenantSession = HERE,
) -> None:
    """Show a kind with the JSON Schemas of its payload and result.

    Try:

        rota kinds show http.request
    """
    items, _ = session.list_all("kinds")
    found = next((it for it in items if it["kind"] == kind), None)
    if found is None:
        raise NotFoundError(
            f"the kind {kind} is not known; rota kinds list shows those that are",
            {"field": "KIND", "kind": kind},
        )
    if session.is_done(found):
        return
    print_facts(session.terminal.out, ("Kind", escape(found["kind"])), _facts(found))
    for title in ("payload", "result"):
        schema = found[f"{title}_schema"]
        if schema:
            session.terminal.print_text(f"\n{title.capitalize()}, as JSON Schema:")
            for line in json.dumps(schema, indent=2).splitlines():
                session.terminal.print_text(escape_json(line))


def _kind_row(kind: dict[str, Any]) -> Row:
    cells = (
        show_text(kind["kind"], _LONGEST),
        _say(kind["is_served"]),
        show_text(kind["queue"], _LONGEST),
        str(kind["priority"]),
        _say(kind["notifies"]),
        show_text(" ".join(_list_fields(kind["payload_schema"])) or NOTHING, _LONGEST),
        show_text(_first_line(kind) or NOTHING, _LONGEST),
    )
    return cells, "" if kind["is_served"] else "dim"


def _list_fields(schema: dict[str, Any]) -> Iterable[str]:
    """The fields of a payload. Its schema has them, or refers to a definition that has them."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    described = schema.get("$defs", {}).get(name, schema)
    properties: dict[str, Any] = described.get("properties", {})
    return properties


def _facts(kind: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Served by a worker now", _say(kind["is_served"])
    yield "Payload is checked", _say(kind["is_checked"])
    yield "Queue", escape(kind["queue"])
    yield "Priority", str(kind["priority"])
    yield "Held back by quiet hours", _say(kind["notifies"])
    yield "About", show_text(kind["doc"] or NOTHING, 1000)


def _first_line(kind: dict[str, Any]) -> str:
    return str(kind["doc"]).strip().partition("\n")[0]


def _say(is_so: bool) -> str:  # noqa: FBT001 - the only thing to say
    return "yes" if is_so else "no"
