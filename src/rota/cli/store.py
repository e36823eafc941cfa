"""``rota store``: how a store stands, bringing its schema up to date, and moving to another."""

import asyncio
from datetime import timedelta
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, JsonOption, StoreOption
from rota.cli.rendering.copying import (
    CopyBar,
    describe_copy,
    plan_document,
    plan_rows,
)
from rota.cli.rendering.copying import (
    report_document as copy_document,
)
from rota.cli.rendering.store import (
    inspection_document,
    inspection_rows,
    list_findings,
    migration_name,
    report_document,
)
from rota.cli.rendering.tables import print_table
from rota.cli.rendering.terminal import Terminal
from rota.errors import StoreUnavailableError
from rota.escape import escape
from rota.ops.store_copy import CopyPlan, CopyReport
from rota.runtime.wiring import copy_store, inspect_store, migrate_store, plan_store_copy

app = App(name="store")

LockTimeoutOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=Number(gt=0, lte=86_400),
        help="How long others may keep the store locked before it is given up.",
    ),
]

SourceArgument = Annotated[
    str, Parameter(metavar="SOURCE", help="The store that is copied; it is only read.")
]
TargetArgument = Annotated[
    str, Parameter(metavar="TARGET", help="An empty store; one that is not there is made.")
]
ForceOption = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Copy although workers run on the source. What they change on the way is found when "
        "the stores are compared, and is an error then.",
    ),
]
DryRunOption = Annotated[
    bool,
    Parameter(negative="", show_default=False, help="Say what would be copied, and write nothing."),
]


@app.command(name="status")
def show_status(
    store: StoreOption = DEFAULT_STORE, *, as_json: JsonOption = False, terminal: GivenTerminal
) -> bool:
    """Show what a store is, how its schema stands, and what it holds.

    Nothing is made or changed. The exit status is 1 when migrations are
    pending or something was set aside. Try:

        rota store status
        rota store status postgresql://rota@db.example/rota --json
    """
    inspection = asyncio.run(inspect_store(store))
    findings = list_findings(inspection)
    if as_json:
        terminal.print_document(inspection_document(inspection))
        return not findings
    print_table(terminal.out, ("Store", inspection.address), inspection_rows(inspection))
    for finding in findings:
        terminal.print_text(escape(finding), "yellow")
    return not findings


@app.command(name="migrate")
def migrate(
    store: StoreOption = DEFAULT_STORE,
    *,
    lock_timeout: LockTimeoutOption = 10,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> None:
    """Make a store if there is none, and bring its schema up to date.

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
    if as_json:
        terminal.print_document(report_document(report))
        return
    for mark in report.applied:
        terminal.print_text(f"Applied {escape(migration_name(mark))}")
    ending = "is now" if report.applied else "is already"
    terminal.print_text(f"The schema {ending} at version {report.schema_version}.", "bold")


@app.command(name="copy")
def copy(
    source: SourceArgument,
    target: TargetArgument,
    *,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    terminal: GivenTerminal,
) -> None:
    """Copy everything from one store to another, and compare them.

    Every job at every stage with its attempts and dependencies, and every
    document, under the same ids, versions and tokens: programs go on with the
    target where they stopped. Stop what works with the source before; it is
    not changed. The target must be empty, and nobody can open it until both
    have been found equal. If the copy is cut off, the same command goes on
    where it was. Try:

        rota store copy sqlite:///rota.db postgresql://db.example/rota --dry-run
        rota store copy sqlite:///rota.db postgresql://db.example/rota
    """
    plan = asyncio.run(plan_store_copy(source, target))
    if dry_run:
        if as_json:
            terminal.print_document(plan_document(plan))
        else:
            print_table(terminal.out, ("Source", plan.source.address), plan_rows(plan))
        return
    report = _copy(plan, (source, target), terminal, is_forced=force)
    if as_json:
        terminal.print_document(copy_document(plan, report))
        return
    terminal.print_text(escape(describe_copy(plan, report)), "bold")


def _copy(
    plan: CopyPlan, addresses: tuple[str, str], terminal: Terminal, *, is_forced: bool
) -> CopyReport:
    """Copy with a bar; whoever interrupts it is told how to go on."""
    try:
        with CopyBar(terminal.err, plan.record_count) as bar:
            copying = copy_store(*addresses, terminal.clock, bar.tell, is_forced=is_forced)
            return asyncio.run(copying)
    except KeyboardInterrupt:
        terminal.print_remark(
            "Interrupted. The source is as it was; the same command goes on with the copy."
        )
        raise
