"""``rota store``: status and schema of a store, and copying it to another."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from rota.cli.options import StoreOption, bounds, flag, value
from rota.cli.output import NOTHING, PLAIN, Output, Terminal, count_of, print_facts
from rota.cli.progress import Bars
from rota.errors import StoreUnavailableError
from rota.escape import escape
from rota.jobs import JobStatus
from rota.ops.store_comparison import UNFINISHED, Phase
from rota.ops.store_copy import CopyPlan, CopyReport
from rota.runtime.store_copy import copy_store, plan_store_copy
from rota.runtime.wiring import DEFAULT_STORE, inspect_store, migrate_store
from rota.scheduler.storage import SET_ASIDE
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.migrations import AppliedMigration

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def list_facts(inspection: StoreInspection) -> list[tuple[str, str]]:
    """What it is and what it holds."""
    facts = [
        ("Kind", f"{inspection.kind} {inspection.version}".strip()),
        ("Schema", _describe_schema(inspection)),
        ("Size", NOTHING if inspection.size is None else format_size(inspection.size)),
        ("Documents", describe_documents(inspection)),
        ("Jobs", describe_jobs(inspection)),
        ("Set aside", str(_set_aside_count(inspection))),
    ]
    return [(name, escape(fact)) for name, fact in facts]


def list_findings(inspection: StoreInspection) -> list[str]:
    """What needs attention; empty when all is well."""
    findings: list[str] = []
    if not inspection.exists:
        findings.append("The store does not exist yet; rota store migrate makes it.")
    elif inspection.pending:
        names = ", ".join(map(migration_name, inspection.pending))
        findings.append(f"Pending: {names}; rota store migrate applies them.")
    if inspection.problem is not None:
        findings.append(inspection.problem)
    if UNFINISHED in inspection.document_counts:
        findings.append("A copy into it was begun and is not finished; repeat it.")
    count = _set_aside_count(inspection)
    if count:
        what = "1 record is" if count == 1 else f"{count} records are"
        findings.append(f"{what} set aside: they could not be read, and are kept as they were.")
    return findings


def inspection_document(inspection: StoreInspection) -> dict[str, Any]:
    return {
        "address": inspection.address,
        "kind": inspection.kind,
        "version": inspection.version,
        "exists": inspection.exists,
        "schema_version": inspection.schema_version,
        "is_up_to_date": inspection.is_up_to_date,
        "problem": inspection.problem,
        "applied": list(map(_migration_document, inspection.applied)),
        "pending": list(map(_migration_document, inspection.pending)),
        "size": inspection.size,
        "documents": dict(inspection.document_counts),
        "jobs": None if inspection.job_counts is None else dict(inspection.job_counts),
        "set_aside": {
            "documents": inspection.document_counts.get(SET_ASIDE, 0),
            "jobs": inspection.set_aside_job_count,
        },
    }


def report_document(report: MigrationReport) -> dict[str, Any]:
    return {
        "applied": list(map(_migration_document, report.applied)),
        "schema_version": report.schema_version,
    }


def migration_name(mark: AppliedMigration) -> str:
    return f"{mark.number:04d}_{mark.name}"


def format_size(size: int) -> str:
    """Bytes as people say it, in powers of 1024: "12.4 MiB"."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{size} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def _migration_document(mark: AppliedMigration) -> dict[str, Any]:
    return {"number": mark.number, "name": mark.name, "is_compatible": mark.is_compatible}


def _describe_schema(inspection: StoreInspection) -> str:
    if not inspection.applied and not inspection.pending:
        return "none"
    state = "up to date" if inspection.is_up_to_date else "not up to date"
    return f"version {inspection.schema_version}, {state}"


def describe_documents(inspection: StoreInspection) -> str:
    """How many documents there are, and in which collections."""
    counts = inspection.document_counts
    if not counts:
        return "0"
    parts = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"{sum(counts.values())} in {len(counts)} collections: {parts}"


def describe_jobs(inspection: StoreInspection) -> str:
    """How many jobs there are, and at which stages."""
    counts = inspection.job_counts
    if counts is None:
        return NOTHING
    parts = [f"{status} {counts[status]}" for status in JobStatus if status in counts]
    return f"{sum(counts.values())}: {', '.join(parts)}" if counts else "0"


def _set_aside_count(inspection: StoreInspection) -> int:
    return inspection.document_counts.get(SET_ASIDE, 0) + inspection.set_aside_job_count


_LABELS = {
    Phase.COPYING: "Copying",
    Phase.VERIFYING_SOURCE: "Verifying the source",
    Phase.VERIFYING_TARGET: "Verifying the target",
}


class CopyBars(Bars):
    """A bar for each phase of a copy."""

    def __init__(self, console: Console, record_count: int) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        )
        super().__init__(console, *columns, is_transient=False)
        self._record_count = record_count

    def report(self, phase: Phase, count: int) -> None:
        """Advance the bar of a phase by this number of records."""
        label = _LABELS[phase].ljust(max(map(len, _LABELS.values())))
        self.advance(self.find_bar(label, self._record_count), count)


def plan_facts(plan: CopyPlan) -> list[tuple[str, str]]:
    """What would be copied."""
    facts = [
        ("Target", plan.target.address),
        ("Documents", describe_documents(plan.source)),
        ("Jobs", describe_jobs(plan.source)),
        ("Would", _describe_beginning(plan)),
    ]
    return [(name, escape(fact)) for name, fact in facts]


def plan_document(plan: CopyPlan) -> dict[str, Any]:
    return {
        "source": plan.source.address,
        "target": plan.target.address,
        "is_resumption": plan.is_resumption,
        "is_repetition": plan.is_repetition,
        "documents": dict(plan.source.document_counts),
        "jobs": dict(plan.source.job_counts or {}),
    }


def describe_copy(plan: CopyPlan, report: CopyReport) -> str:
    """One sentence: what is in both stores."""
    content = report.content
    counted = (content.job_count, "job"), (content.attempt_count, "attempt")
    counts = ", ".join(count_of(*it) for it in (*counted, (content.document_count, "document")))
    unreadable = content.unreadable_count
    aside = f" ({unreadable:,} of the jobs cannot be read, and are set aside)" if unreadable else ""
    before = " The copy had been finished before; nothing was copied now."
    return (
        f"{plan.target.address}: verified {counts}: equal{aside}."
        f"{before if report.was_finished else ''}"
    )


def copy_document(plan: CopyPlan, report: CopyReport) -> dict[str, Any]:
    content = report.content
    return {
        "source": plan.source.address,
        "target": plan.target.address,
        "is_resumed": report.is_resumed,
        "was_finished": report.was_finished,
        "is_equal": True,
        "jobs": content.job_count,
        "unreadable_jobs": content.unreadable_count,
        "attempts": content.attempt_count,
        "documents": content.document_count,
        "digest": content.digest,
    }


def _describe_beginning(plan: CopyPlan) -> str:
    if plan.is_resumption:
        return "continue the copy that was begun"
    if plan.is_repetition:
        return "copy nothing: see whether the target, which holds as much, is a finished copy"
    return "fill the empty store" if plan.target.exists else "make the store and fill it"


app = App(name="store")

LockTimeoutOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=bounds(above=0, most=86_400),
        help="How long to wait while others keep the store locked.",
    ),
]

SourceArgument = Annotated[str, value("SOURCE", "The store that is copied; it is only read.")]
TargetArgument = Annotated[
    str, value("TARGET", "An empty store; one that does not exist is created.")
]
ForceOption = Annotated[
    bool,
    flag(
        "Copy although workers run on the source. What they change meanwhile is found when the "
        "stores are compared, and is an error."
    ),
]
DryRunOption = Annotated[bool, flag("Say what would be copied, and write nothing.")]


@app.command(name="status")
def show_status(store: StoreOption = DEFAULT_STORE, *, output: Output = PLAIN) -> bool:
    """Show a store's type, its schema and what it holds.

    Nothing is created or changed. The exit status is 1 when migrations are
    pending or something was set aside. Try:

        rota store status
        rota store status postgresql://rota@db.example/rota --json
    """
    inspection = asyncio.run(inspect_store(store))
    findings = list_findings(inspection)
    if output.is_done(inspection_document(inspection)):
        return not findings
    print_facts(output.terminal.out, ("Store", inspection.address), list_facts(inspection))
    for finding in findings:
        output.terminal.print_text(escape(finding), "yellow")
    return not findings


@app.command(name="migrate")
def migrate(
    store: StoreOption = DEFAULT_STORE,
    *,
    lock_timeout: LockTimeoutOption = 10,
    output: Output = PLAIN,
) -> None:
    """Create a store if needed, and bring its schema up to date.

    All pending migrations are applied in one step, or none is. Programs that
    know only the older schema go on working, unless a migration says that it
    is not compatible. Try:

        rota store migrate
        rota store migrate postgresql://rota@db.example/rota --lock-timeout 60
    """
    try:
        report = asyncio.run(migrate_store(store, timedelta(seconds=lock_timeout)))
    except StoreUnavailableError as error:
        error.add_note("The schema is as it was, and programs that use it go on working.")
        raise
    if output.is_done(report_document(report)):
        return
    for mark in report.applied:
        output.terminal.print_text(f"Applied {escape(migration_name(mark))}")
    ending = "is now" if report.applied else "is already"
    output.terminal.print_text(f"The schema {ending} at version {report.schema_version}.", "bold")


@app.command(name="copy")
def copy(
    source: SourceArgument,
    target: TargetArgument,
    *,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    output: Output = PLAIN,
) -> None:
    """Copy everything from one store to another, and compare them.

    Every job at every stage with its attempts and dependencies, and every
    document, under the same ids, versions and tokens: programs go on with the
    target where they stopped. First stop what works with the source; it is
    not changed. The target must be empty, and cannot be opened until both
    are found equal. If the copy is interrupted, the same command continues
    it. Try:

        rota store copy sqlite:///rota.db postgresql://db.example/rota --dry-run
        rota store copy sqlite:///rota.db postgresql://db.example/rota
    """
    plan = asyncio.run(plan_store_copy(source, target))
    if dry_run:
        if not output.is_done(plan_document(plan)):
            print_facts(output.terminal.out, ("Source", plan.source.address), plan_facts(plan))
        return
    report = _copy(plan, (source, target), output.terminal, is_forced=force)
    if output.is_done(copy_document(plan, report)):
        return
    output.terminal.print_text(escape(describe_copy(plan, report)), "bold")


def _copy(
    plan: CopyPlan, addresses: tuple[str, str], terminal: Terminal, *, is_forced: bool
) -> CopyReport:
    """Copy with a progress bar. An interruption says how to continue."""
    try:
        with CopyBars(terminal.err, plan.record_count) as bars:
            copying = copy_store(*addresses, terminal.clock, bars.report, is_forced=is_forced)
            return asyncio.run(copying)
    except KeyboardInterrupt:
        terminal.print_remark(
            "Interrupted. The source is unchanged; the same command continues the copy."
        )
        raise
