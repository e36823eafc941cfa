"""``rota store``: how a store stands, and bringing its schema up to date."""

import asyncio
from datetime import timedelta
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from rota.cli.reading.options import DEFAULT_STORE, GivenTerminal, JsonOption, StoreOption
from rota.cli.rendering.store import (
    inspection_document,
    inspection_rows,
    list_findings,
    migration_name,
    report_document,
)
from rota.cli.rendering.tables import print_table
from rota.errors import StoreUnavailableError
from rota.escaping import escape
from rota.wiring import inspect_store, migrate_store

app = App(name="store")

LockTimeoutOption = Annotated[
    float,
    Parameter(
        metavar="SECONDS",
        validator=Number(gt=0, lte=86_400),
        help="How long others may keep the store locked before it is given up.",
    ),
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
