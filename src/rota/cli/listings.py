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

_LONGEST = 60


def workers(*, session: TenantSession = HERE) -> None:
    """List the workers."""
    session.print_items(session.list_all("workers"), worker_row, noun="worker")


def worker_row(worker: dict[str, Any], viewer: Viewer) -> Row:
    queues = worker["queues"]
    cells = {
        "Worker": show_text(worker["id"], _LONGEST),
        "Host": show_text(worker["host"], _LONGEST),
        "Version": show_text(worker["version"], _LONGEST),
        "Running": _describe_load(worker),
        "Seen": viewer.relative(worker["seen_at"]),
        "Started": viewer.relative(worker["started_at"]),
        "Queues": "any" if queues is None else _join(queues),
        "Labels": _join(worker.get("labels", ())),
        "Kinds": _join(worker["kinds"]),
    }
    return cells, ""


def _describe_load(worker: dict[str, Any]) -> str:
    ahead = f", {worker['ahead_count']} leased ahead" if worker["ahead_count"] else ""
    return f"{worker['busy_count']}/{worker['concurrency']}{ahead}"


def _join(names: Sequence[str]) -> str:
    return show_text(" ".join(names) or NOTHING)


def tenants(
    *,
    hours: Annotated[int, number(1, 168, "How many of the last hours to compare.")] = 1,
    session: ZonedSession = LOCALLY,
) -> None:
    """Compare tenants."""
    listed = session.list_all("tenants", query={"hours": hours})
    session.print_items(listed, tenant_row, noun="tenant")


def tenant_row(tenant: dict[str, Any], viewer: Viewer) -> Row:
    wait = tenant["mean_wait_ms"]
    cells = {
        "Tenant": show_text(tenant["tenant"], 40),
        "Busy": format_seconds(tenant["busy_seconds"]),
        "Share": f"{tenant['busy_share']:.0%}",
        "Succeeded": str(tenant["succeeded"]),
        "Failed": str(tenant["failed"]),
        "Due": _number(tenant["due_count"]),
        "Oldest": viewer.relative(tenant["oldest_due_at"]),
        "Running": _number(tenant["running_count"]),
        "Dead": _number(tenant["dead_letter_count"]),
        "Wait": NOTHING if wait is None else format_milliseconds(wait),
    }
    return cells, "red" if tenant["dead_letter_count"] else ""


def _number(count: int | None) -> str:
    return NOTHING if count is None else str(count)


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
    session.print_items(listed, entry_row, noun="entry")


def entry_row(entry: dict[str, Any], viewer: Viewer) -> Row:
    cells = {
        "When": viewer.show(entry["at"]),
        "Who": show_text(entry["who"], _LONGEST_NAME),
        "Action": show_text(entry["action"], _LONGEST_NAME),
        "Jobs": _name_jobs(entry.get("job_ids", ())),
        "Details": _describe(entry["why"], entry.get("details", {})),
    }
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

_LONGEST = 60


@kinds.command(name="list")
def list_kinds(*, session: TenantSession = HERE) -> None:
    """List the kinds that apps declare or workers serve, by name.

    Try:

        rota kinds list
        rota kinds list --json
    """
    session.print_items((_read_kinds(session), None), lambda it, _: _kind_row(it), noun="kind")


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
    found = next((it for it in _read_kinds(session) if it["kind"] == kind), None)
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


def _read_kinds(session: TenantSession) -> list[Any]:
    """All kinds, and whether a command that creates jobs checks their payloads."""
    items: list[Any] = session.talk(lambda it: it.get("/kinds"))["items"]
    return items


def _kind_row(kind: dict[str, Any]) -> Row:
    cells = {
        "Kind": show_text(kind["kind"], _LONGEST),
        "Served": _say(kind["is_served"]),
        "Queue": show_text(kind["queue"], _LONGEST),
        "Priority": str(kind["priority"]),
        "Notifies": _say(kind["notifies"]),
        "Payload": show_text(" ".join(_list_fields(kind["payload_schema"])) or NOTHING, _LONGEST),
        "About": show_text(_first_line(kind) or NOTHING, _LONGEST),
    }
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
