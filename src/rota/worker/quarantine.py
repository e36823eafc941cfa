"""Suspects run one at a time: a job whose last worker was lost may be what killed it.

Everything a worker holds when it dies is lost with it, and after three losses in a row a job is set
aside. A suspect that is never beside another one is lost only by its own fault, or by that of a job
which was never suspected before. All other jobs run on beside it; none waits for a suspect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from rota.clock.protocol import later
from rota.jobs import Quarantine as Severity
from rota.jobs import assess_quarantine
from rota.policy.gates import Closed
from rota.worker.attempts import Attempt, Flow, Result, Stage
from rota.worker.job_events import job_set_apart
from rota.worker.processes import ProcessCall
from rota.worker.settings import Resources

ALONE_FOR = timedelta(seconds=10)
"""How long a slight suspect waits for other suspects, or for its turn among them, at most."""

PATIENT_FOR = timedelta(hours=1)
"""How long a severe suspect waits for one that runs, which may hang.

A job that has run for an hour is not a likely killer.
"""

_SHORTEST_WAIT, _LONGEST_WAIT = timedelta(seconds=1), timedelta(minutes=1)

WAITS = "waits until another job that lost its worker has ended here"


@dataclass(slots=True)
class Quarantine:
    """The suspects of one worker that run or are about to; others are deferred for a moment.

    A suspect that waits is not held: it would be lost together with the one that runs.
    """

    _resources: Resources
    _flow: Flow
    _suspects: list[Attempt] = field(default_factory=list)
    _deferred_count: int = 0

    def admit(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """The attempts that may start now; only those that have lost a worker can be suspects."""
        now = self._resources.clock.now()
        return [it for it in attempts if not self._is_suspect(it) or self._may_start(it, now)]

    def _is_suspect(self, attempt: Attempt) -> bool:
        """Whether it may have killed a worker. What runs in a child process cannot do that."""
        handler = self._resources.handlers.get(attempt.job.kind)
        is_isolated = handler is not None and isinstance(handler.work, ProcessCall)
        return bool(assess_quarantine(attempt.job)) and not is_isolated

    def _may_start(self, suspect: Attempt, now: datetime) -> bool:
        is_severe = assess_quarantine(suspect.job) is Severity.SEVERE
        patience = PATIENT_FOR if is_severe else ALONE_FOR
        self._suspects = [it for it in self._suspects if it.stage is not Stage.ENDED]
        taken_for = [now - it.started_at for it in self._suspects]
        is_free = all(each >= patience for each in taken_for)
        if is_free or (not is_severe and _has_waited(suspect)):
            self._suspects.append(suspect)
            self._deferred_count = 0
            self._resources.events.emit(job_set_apart(suspect))
            return True
        self._deferred_count += 1
        wait_for = self._deferred_count * max(_SHORTEST_WAIT, min(taken_for))
        closed = Closed(later(now, min(wait_for, _LONGEST_WAIT if is_severe else ALONE_FOR)), WAITS)
        self._flow.end(suspect, Result(closed), now)
        return False


def _has_waited(suspect: Attempt) -> bool:
    deferral = suspect.job.deferral
    return deferral is not None and deferral.reason == WAITS
