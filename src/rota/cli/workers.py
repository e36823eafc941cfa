"""``rota workers``: the workers of a tenant, what they take and how busy they are."""

from collections.abc import Sequence
from typing import Any

from rota.cli.output import NOTHING, Row, Viewer, show_text
from rota.cli.session import HERE, TenantSession

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
