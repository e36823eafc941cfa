"""``rota audit``: the audit log of a tenant, newest entry first."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from rota.cli.arguments import check_ids
from rota.cli.options import LimitOption, value
from rota.cli.output import NOTHING, Row, Viewer, show_text
from rota.cli.session import LOCALLY, ZonedSession

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
