"""``rota tenants``: the tenants of an installation, the busiest first."""

from typing import Annotated, Any

from rota.cli.arguments import choose_zone
from rota.cli.connection import converse
from rota.cli.options import GivenTerminal, JsonOption, ZoneOption, number
from rota.cli.output import (
    NOTHING,
    Row,
    Viewer,
    format_milliseconds,
    format_seconds,
    print_items,
    show_text,
)
from rota.cli.place import NOWHERE, Place

TENANT_COLUMNS = (
    "Tenant", "Busy", "Share", "Succeeded", "Failed", "Due", "Oldest", "Running", "Dead", "Wait",
)  # fmt: skip


def tenants(
    *,
    hours: Annotated[int, number(1, 168, "Compare the last hours.")] = 1,
    zone: ZoneOption = None,
    as_json: JsonOption = False,
    place: Place = NOWHERE,
    terminal: GivenTerminal,
) -> None:
    """Compare tenants."""
    found = converse(terminal, place, lambda it: it.get("/tenants", {"hours": hours}))
    viewer = Viewer(terminal.clock.now(), choose_zone(zone).zone)
    print_items(
        terminal,
        (found["items"], None),
        TENANT_COLUMNS,
        lambda it: tenant_row(it, viewer),
        as_json=as_json,
        noun="tenant",
    )


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
        viewer.tell(tenant["oldest_due_at"]),
        _number(tenant["running_count"]),
        _number(tenant["dead_letter_count"]),
        NOTHING if wait is None else format_milliseconds(wait),
    )
    return cells, "red" if tenant["dead_letter_count"] else ""


def _number(count: int | None) -> str:
    return NOTHING if count is None else str(count)
