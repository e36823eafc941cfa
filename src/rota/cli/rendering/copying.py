"""A copy from one store to another: what is to be done, how far it is, and what came of it."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from rota.cli.rendering.store import describe_documents, describe_jobs
from rota.cli.rendering.tables import Row
from rota.escape import escape
from rota.ops.store_comparison import Phase
from rota.ops.store_copy import CopyPlan, CopyReport

_LABELS = {
    Phase.COPYING: "Copying",
    Phase.VERIFYING_SOURCE: "Verifying the source",
    Phase.VERIFYING_TARGET: "Verifying the target",
}


class CopyBar:
    """A bar for each phase, on a terminal; elsewhere nothing."""

    def __init__(self, console: Console, record_count: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._record_count = record_count
        self._bars: dict[Phase, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def tell(self, phase: Phase, count: int) -> None:
        """So many more records have been dealt with."""
        if phase not in self._bars:
            widest = max(map(len, _LABELS.values()))
            label = _LABELS[phase].ljust(widest)
            self._bars[phase] = self._progress.add_task(label, total=self._record_count)
        self._progress.advance(self._bars[phase], count)


def plan_rows(plan: CopyPlan) -> list[Row]:
    """What would be copied, one row a fact."""
    facts = [
        ("Target", plan.target.address),
        ("Documents", describe_documents(plan.source)),
        ("Jobs", describe_jobs(plan.source)),
        ("Would", _describe_beginning(plan)),
    ]
    return [((name, escape(fact)), "") for name, fact in facts]


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
    tally = report.tally
    counts = (
        f"{tally.job_count:,} jobs, {tally.attempt_count:,} attempts, "
        f"{tally.document_count:,} documents"
    )
    unreadable = tally.unreadable_count
    aside = f" ({unreadable:,} of the jobs cannot be read, and are set aside)" if unreadable else ""
    before = " The copy had been finished before; nothing was copied now."
    return (
        f"{plan.target.address}: verified {counts}: equal{aside}."
        f"{before if report.was_finished else ''}"
    )


def report_document(plan: CopyPlan, report: CopyReport) -> dict[str, Any]:
    tally = report.tally
    return {
        "source": plan.source.address,
        "target": plan.target.address,
        "is_resumed": report.is_resumed,
        "was_finished": report.was_finished,
        "is_equal": True,
        "jobs": tally.job_count,
        "unreadable_jobs": tally.unreadable_count,
        "attempts": tally.attempt_count,
        "documents": tally.document_count,
        "digest": tally.digest,
    }


def _describe_beginning(plan: CopyPlan) -> str:
    if plan.is_resumption:
        return "go on with the copy that was begun"
    if plan.is_repetition:
        return "copy nothing: see whether the target, which holds as much, is a finished copy"
    return "fill the empty store" if plan.target.exists else "make the store and fill it"
