"""``rota tenants``: the tenants of an installation, the busiest first."""

from typing import Annotated, Any

from rota.cli.options import number
from rota.cli.output import NOTHING, Row, Viewer, format_milliseconds, format_seconds, show_text
from rota.cli.session import LOCALLY, ZonedSession

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
