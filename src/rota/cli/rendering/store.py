"""A store as it was found: as a table, as findings, and as JSON."""

from typing import Any

from rota.cli.rendering.tables import Row
from rota.escape import escape
from rota.jobs import JobStatus
from rota.ops.store_comparison import UNFINISHED
from rota.scheduler.storage import SET_ASIDE
from rota.stores.inspection import MigrationReport, StoreInspection
from rota.stores.sql.migrations import AppliedMigration

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def inspection_rows(inspection: StoreInspection) -> list[Row]:
    """What it is and what it holds, one row a fact."""
    facts = [
        ("Kind", f"{inspection.kind} {inspection.version}".strip()),
        ("Schema", _describe_schema(inspection)),
        ("Size", "-" if inspection.size is None else format_size(inspection.size)),
        ("Documents", describe_documents(inspection)),
        ("Jobs", describe_jobs(inspection)),
        ("Set aside", str(_set_aside_count(inspection))),
    ]
    return [((name, escape(fact)), "") for name, fact in facts]


def list_findings(inspection: StoreInspection) -> list[str]:
    """What somebody should do something about; empty when all is well."""
    findings: list[str] = []
    if not inspection.exists:
        findings.append("There is no such store yet; rota store migrate makes it.")
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
        return "-"
    parts = [f"{status} {counts[status]}" for status in JobStatus if status in counts]
    return f"{sum(counts.values())}: {', '.join(parts)}" if counts else "0"


def _set_aside_count(inspection: StoreInspection) -> int:
    return inspection.document_counts.get(SET_ASIDE, 0) + inspection.set_aside_job_count
