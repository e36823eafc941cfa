"""``rota kinds``: the kinds of jobs, their payloads, and who serves them."""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from cyclopts import App

from rota.cli.options import value
from rota.cli.output import NOTHING, Row, print_facts, show_text
from rota.cli.session import HERE, TenantSession
from rota.errors import NotFoundError
from rota.escape import escape, escape_json

app = App(name="kinds")

KIND_COLUMNS = ("Kind", "Served", "Queue", "Priority", "Notifies", "Payload", "About")
_LONGEST = 60


@app.command(name="list")
def list_kinds(*, session: TenantSession = HERE) -> None:
    """List the kinds that apps declare or workers serve, by name.

    Try:

        rota kinds list
        rota kinds list --json
    """
    listed = session.list_all("kinds")
    session.print_items(listed, KIND_COLUMNS, lambda it, _: _kind_row(it), noun="kind")


@app.command(name="show")
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
