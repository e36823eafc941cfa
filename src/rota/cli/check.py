"""``rota check``: finds problems on a store that need attention."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from rota.cli.options import StoreOption, bounds, several
from rota.cli.output import PLAIN, Output
from rota.clock.protocol import Clock
from rota.escape import escape
from rota.ops.notices import WatchedTasks, find_notices
from rota.runtime.wiring import DEFAULT_STORE, inspect_store, open_store
from rota.stores.inspection import StoreInspection
from rota.telemetry.health import (
    Finding,
    StoreStatus,
    Thresholds,
    complete_store_status,
    count_unreadable,
    judge_unreadable,
    list_findings,
)

LateOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=bounds(above=0, most=31_536_000),
        help="How long a job may be due before it is late.",
    ),
]
AcceptableOption = Annotated[
    int, Parameter(metavar="NUMBER", validator=bounds(least=0), help="How many are acceptable.")
]
TenantOption = Annotated[
    list[str] | None,
    several("--tenant", "NAME", "Count the dead letters of this tenant only. Repeatable."),
]

ALL_IS_WELL = 0
PROBLEMS = 1
HELD_BACK = 7


class Examined(NamedTuple):
    """The state of a store, what needs attention, and what an operator should know anyway."""

    standing: StoreStatus | None
    findings: list[Finding]
    notes: tuple[str, ...]


def check(
    *,
    store: StoreOption = DEFAULT_STORE,
    late_after: LateOption = 300,
    dead_letters: AcceptableOption = 0,
    stalled: AcceptableOption = 0,
    tenant: TenantOption = None,
    output: Output = PLAIN,
) -> int:
    """Print what needs attention. Returns the exit status."""
    limits = Thresholds(
        dead_letters=dead_letters, stalled=stalled, late_after=timedelta(seconds=late_after)
    )
    examined = asyncio.run(_examine(store, output.terminal.clock, limits, tenant or []))
    if output.is_done(check_document(examined)):
        return _exit_status(examined.findings)
    for finding in examined.findings:
        output.terminal.print_text(escape(finding.text), "yellow")
    if not examined.findings:
        output.terminal.print_text("All is well.", "bold")
    for note in examined.notes:
        output.terminal.print_text(escape(f"Note: {note}"))
    return _exit_status(examined.findings)


def _exit_status(findings: list[Finding]) -> int:
    """0: all is well. 7: jobs are held back on purpose, and there is no other finding. 1: else."""
    if not findings:
        return ALL_IS_WELL
    return HELD_BACK if all(it.concern == "held" for it in findings) else PROBLEMS


async def _examine(url: str, clock: Clock, limits: Thresholds, tenants: list[str]) -> Examined:
    inspection = await inspect_store(url)
    problem = judge_schema(inspection)
    if problem is not None:  # opening the store would migrate it
        aside = judge_unreadable(count_unreadable(inspection))
        findings = [problem] if aside is None else [problem, aside]
        return Examined(None, findings, inspection.notes)
    async with await open_store(url) as store:
        now = await store.read_clock() or clock.now()
        standing = await complete_store_status(store, inspection, now, tenants)
        tasks = WatchedTasks(store, clock, limits.late_after)
        notices = await find_notices(store, clock, tasks)
    noted = [Finding(it.concern, it.count, it.text) for it in notices]
    findings = [*list_findings(standing, limits), *noted]
    return Examined(standing, findings, inspection.notes)


def judge_schema(inspection: StoreInspection) -> Finding | None:
    """Why the jobs of a store cannot be read without changing it; None when they can."""
    if inspection.problem is not None:
        return Finding("schema", 1, inspection.problem)
    if not inspection.exists:
        return Finding("store", 1, "The store does not exist yet; rota store migrate makes it.")
    if inspection.pending:
        count = len(inspection.pending)
        noun = "migration is" if count == 1 else "migrations are"
        return Finding("schema", count, f"{count} {noun} pending; rota store migrate applies them.")
    return None


def check_document(examined: Examined) -> dict[str, Any]:
    """The answer for programs."""
    standing, findings, notes = examined
    return {
        "is_well": not findings,
        "findings": [
            {"concern": it.concern, "count": it.count, "text": it.text} for it in findings
        ],
        "jobs": None if standing is None else dict(standing.job_counts),
        "dead_letters": None if standing is None else standing.dead_count,
        "stalled": None if standing is None else standing.stalled_count,
        "oldest_due_seconds": None
        if standing is None
        else round(standing.oldest_due_for.total_seconds(), 3),
        "set_aside": None if standing is None else standing.set_aside_count,
        "notes": list(notes),
    }
