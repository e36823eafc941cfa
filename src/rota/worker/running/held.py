"""The jobs that are in a worker's hands."""

from asyncio import Task
from datetime import datetime
from enum import Enum

from rota.jobs import Change, Job, Outcome
from rota.policy.gates import Closed
from rota.stores.protocol import HeldLease
from rota.worker.context import CancelReason, Context


class Stage(Enum):
    """How far a job has come here."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class Held:
    """One job, from its lease until what became of it is written.

    ``until`` is how long the lease is known to last. ``cancel_reason`` says why the attempt is
    to end early, ``is_interrupted`` that its handler was told. ``is_doubtful``: its change may have
    been written, but nobody said so; ``is_stale``: it was not, for another has the job.
    """

    __slots__ = (
        "cancel_detail",
        "cancel_reason",
        "change",
        "context",
        "ended_at",
        "error_code",
        "is_doubtful",
        "is_interrupted",
        "is_stale",
        "job",
        "outcome",
        "runner",
        "stage",
        "started_at",
        "until",
    )

    def __init__(self, job: Job, until: datetime) -> None:
        self.job = job
        self.until = until
        self.stage = Stage.WAITING
        self.started_at = self.ended_at = until
        self.runner: Runner | None = None
        self.context: Context | None = None
        self.cancel_reason: CancelReason | None = None
        self.cancel_detail = ""
        self.is_interrupted = False
        self.is_doubtful = False
        self.is_stale = False
        self.error_code = ""
        self.outcome: Outcome | Closed | None = None
        self.change: Change | None = None

    @property
    def lease(self) -> HeldLease:
        return HeldLease(self.job.id, self.job.last_token)

    @property
    def may_be_cut_short(self) -> bool:
        """Whether the attempt has neither ended nor been told to."""
        return self.cancel_reason is None and self.stage is not Stage.ENDED


class Runner:
    """One of those who run jobs, one at a time. ``is_dismissed``: takes no other any more."""

    __slots__ = ("held", "is_dismissed", "name", "task")

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: Held | None = None
        self.task: Task[None] | None = None
        self.is_dismissed = False
