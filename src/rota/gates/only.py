"""A gate that stands before some jobs only."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from rota.gates.verdict import OPEN, Gate, Verdict
from rota.jobs.record import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """``gate`` for jobs of these tenants, queues and kinds; None means all. Others pass."""

    gate: Gate
    tenants: Collection[str] | None = None
    queues: Collection[str] | None = None
    kinds: Collection[str] | None = None

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """What the gate says, if it concerns the job."""
        concerned = (
            (self.tenants is None or job.tenant in self.tenants)
            and (self.queues is None or job.queue in self.queues)
            and (self.kinds is None or job.kind in self.kinds)
        )
        return self.gate.judge(job, now, notifies=notifies) if concerned else OPEN
