"""Copies everything from one store to another."""

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from rota.errors import (
    CopyDiffersError,
    CopyRefusedError,
    InvalidInputError,
    SchemaOutdatedError,
    StoreUnavailableError,
)
from rota.fleet.presence import list_workers
from rota.ops.store_comparison import (
    UNFINISHED,
    ContentDigest,
    MarkedTarget,
    Phase,
    ShowProgress,
    compare,
    content_counts,
    name_of,
    read_portions,
    walk_through,
    without_traces,
)
from rota.stores.inspection import StoreInspection
from rota.stores.opened import OpenStore
from rota.stores.protocol import PortableStore, Portion

_MEMORY = "memory"
_MOST_NAMED = 3

NOTED_AFTER = 2_000
"""The number of records between progress records.

This many may be loaded again after an interruption.
"""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Two inspected stores between which a copy is possible."""

    source: StoreInspection
    target: StoreInspection

    @property
    def is_resumption(self) -> bool:
        """Whether an earlier copy into the target was interrupted."""
        return UNFINISHED in self.target.document_counts

    @property
    def is_repetition(self) -> bool:
        """Whether an earlier copy may have finished: both stores hold as many records."""
        return not self.is_resumption and _holds_anything(self.target)

    @property
    def record_count(self) -> int:
        """The number of documents and jobs to copy."""
        documents = content_counts(self.source.document_counts)
        return sum(documents.values()) + _count_jobs(self.source)


def plan_copy(source: StoreInspection, target: StoreInspection) -> CopyPlan:
    """Check that the copy is possible. An error says what to do."""
    for inspection in (source, target):
        if inspection.kind == _MEMORY:
            raise InvalidInputError(
                "A store in memory cannot be copied: it is gone when its process ends",
                {"address": inspection.address},
            )
    if source.address == target.address:
        raise InvalidInputError(
            f"The source and the target are the same store, {source.address}",
            {"address": source.address},
        )
    if not source.exists:
        raise StoreUnavailableError(
            f"There is no store at {source.address}", {"address": source.address}
        )
    _check_schema(source)
    plan = CopyPlan(source, target)
    if target.exists:
        _check_schema(target)
        _check_content(plan)
    return plan


def _check_schema(inspection: StoreInspection) -> None:
    if inspection.problem is not None:
        raise SchemaOutdatedError(inspection.problem, {"address": inspection.address})
    if inspection.pending:
        raise SchemaOutdatedError(
            f"The schema of {inspection.address} is older than this program: bring it up to date "
            "first, with rota store migrate",
            {"address": inspection.address},
        )


def _check_content(plan: CopyPlan) -> None:
    """Check that the target is empty, marked by the same copy, or as full as the source.

    A target as full as the source may be a finished copy.
    """
    target = plan.target
    if not plan.is_repetition or _hold_as_much(plan.source, target):
        return
    documents = content_counts(target.document_counts)
    held = [f"{count} of {name}" for name, count in documents.items()]
    job_count = _count_jobs(target) or target.set_aside_job_count
    parts = [f"{job_count} jobs"] if job_count else []
    parts += [f"documents ({', '.join(held)})"] if held else []
    raise CopyRefusedError(
        f"The target {target.address} is not empty: it holds {' and '.join(parts)}. "
        "Name a store that is empty, or empty this one",
        {"address": target.address, "jobs": job_count, "documents": held},
    )


def _holds_anything(inspection: StoreInspection) -> bool:
    jobs = _count_jobs(inspection) or inspection.set_aside_job_count
    return bool(jobs or content_counts(inspection.document_counts))


def _hold_as_much(one: StoreInspection, other: StoreInspection) -> bool:
    """Compare totals. Stores count unreadable jobs differently."""
    if content_counts(one.document_counts) != content_counts(other.document_counts):
        return False
    has_unreadable = bool(one.set_aside_job_count or other.set_aside_job_count)
    return has_unreadable or _count_jobs(one) == _count_jobs(other)


def _count_jobs(inspection: StoreInspection) -> int:
    return sum((inspection.job_counts or {}).values())


async def check_idle(source: OpenStore, now: datetime) -> None:
    """Raise CopyRefusedError when workers are present or jobs are leased."""
    workers = [worker.id for worker in await list_workers(source, now)]
    leased_count = sum(
        depth.running_count - depth.stalled_count for depth in await source.survey(now)
    )
    reasons: list[str] = []
    if workers:
        names = ", ".join(workers[:_MOST_NAMED]) + (", …" if workers[_MOST_NAMED:] else "")
        reasons.append(f"{len(workers)} workers are running ({names})")
    if leased_count:
        reasons.append(f"{leased_count} jobs are leased")
    if reasons:
        raise CopyRefusedError(
            f"The source is in use: {' and '.join(reasons)}. Stop what works with it and wait a "
            "minute, or copy all the same with --force",
            {"workers": workers, "leased": leased_count},
        )


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy.

    ``is_resumed``: an interrupted copy was continued. ``was_finished``: the target was a complete
    copy already, and nothing was written.
    """

    content: ContentDigest
    is_resumed: bool = False
    was_finished: bool = False


async def copy_everything(
    source: PortableStore,
    target: PortableStore,
    marked: MarkedTarget,
    now: datetime,
    show_progress: ShowProgress,
) -> CopyReport:
    """Copy everything from ``source`` to ``target``, compare the two, and remove the mark.

    The source is only read. Raises CopyDiffersError when the two differ; the mark then stays, and
    the target cannot be used.
    """
    if not marked.is_resumed:
        await _refuse_content(target, marked)
    if not marked.mark.is_copied:
        await _move(source, target, marked, now, show_progress)
    content, differences = await compare(source, target, show_progress)
    if differences:
        raise CopyDiffersError(differences)
    await marked.finish()
    return CopyReport(content, is_resumed=marked.is_resumed)


async def recognise_copy(
    source: PortableStore, target: PortableStore, show_progress: ShowProgress
) -> CopyReport:
    """Check whether ``target`` already equals ``source``. Writes nothing.

    A copy interrupted while removing its mark is repeated and ends here. Raises CopyRefusedError
    when the two differ.
    """
    content, differences = await compare(source, target, show_progress)
    if differences:
        raise CopyRefusedError(
            "The target is not empty, and is not a copy of the source: "
            f"{'; '.join(differences)}. Name a store that is empty, or empty this one",
            {"differences": differences},
        )
    return CopyReport(content, was_finished=True)


async def _refuse_content(target: PortableStore, marked: MarkedTarget) -> None:
    """Refuse content that reached the target between inspection and marking."""
    async with aclosing(walk_through(target)) as walk:
        async for records in walk:
            if records:
                await marked.finish()
                raise CopyRefusedError(f"The target is not empty: it holds {name_of(records[0])}")


async def _move(
    source: PortableStore,
    target: PortableStore,
    marked: MarkedTarget,
    now: datetime,
    show_progress: ShowProgress,
) -> None:
    show_progress(Phase.COPYING, marked.mark.copied_count)
    count = 0
    async with read_portions(source, marked.mark.cursor) as portions:
        async for portion in portions:
            await _load(portion, target, now)
            count += len(portion.records)
            if count >= NOTED_AFTER or portion.cursor is None:
                await marked.advance(portion.cursor, count)
                count = 0
            show_progress(Phase.COPYING, len(portion.records))


async def _load(portion: Portion, target: PortableStore, now: datetime) -> None:
    """Load portions. Skip what an abandoned copy left in the source."""
    records = without_traces(portion.records)
    if records:
        await target.load(records, now)
