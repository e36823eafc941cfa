"""What must be so before a copy begins; nothing is written by asking."""

from dataclasses import dataclass
from datetime import datetime

from rota.copying.mark import UNFINISHED
from rota.errors import (
    CopyRefusedError,
    InvalidInputError,
    SchemaOutdatedError,
    StoreUnavailableError,
)
from rota.stores.inspection import StoreInspection
from rota.stores.opened import OpenStore
from rota.worker.presence import list_workers

_MEMORY = "memory"
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """Two stores as they were found, between which a copy is possible."""

    source: StoreInspection
    target: StoreInspection

    @property
    def is_resumption(self) -> bool:
        """Whether a copy into the target was begun before."""
        return UNFINISHED in self.target.document_counts

    @property
    def record_count(self) -> int:
        """How many documents and jobs there are to copy."""
        jobs = self.source.job_counts or {}
        return sum(self.source.document_counts.values()) + sum(jobs.values())


def plan_copy(source: StoreInspection, target: StoreInspection) -> CopyPlan:
    """Refuse what cannot be copied, or copied into; the reason says what to do about it."""
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
    if target.exists:
        _check_schema(target)
        _check_empty(target)
    return CopyPlan(source, target)


def _check_schema(inspection: StoreInspection) -> None:
    if inspection.problem is not None:
        raise SchemaOutdatedError(inspection.problem, {"address": inspection.address})
    if inspection.pending:
        raise SchemaOutdatedError(
            f"The schema of {inspection.address} is older than this program: bring it up to date "
            "first, with rota store migrate",
            {"address": inspection.address},
        )


def _check_empty(target: StoreInspection) -> None:
    """A store that bears the mark of a copy holds what that has brought."""
    if UNFINISHED in target.document_counts:
        return
    held = [f"{count} of {name}" for name, count in target.document_counts.items() if count]
    job_count = sum((target.job_counts or {}).values()) or target.set_aside_job_count
    jobs = [f"{job_count} jobs"] if job_count else []
    documents = [f"documents ({', '.join(held)})"] if held else []
    if jobs or documents:
        raise CopyRefusedError(
            f"The target {target.address} is not empty: it holds {' and '.join(jobs + documents)}. "
            "Name a store that is empty, or empty this one",
            {"address": target.address, "jobs": job_count, "documents": held},
        )


async def check_idle(source: OpenStore, now: datetime) -> None:
    """CopyRefusedError when workers run on the store, or jobs are leased."""
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
