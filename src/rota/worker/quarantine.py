"""Suspects run alone: a job whose last worker was lost may be what killed it.

Everything a worker holds when it dies is lost with it, and after three losses a job is set aside.
So once a worker has leased a suspect it leases nothing more, waits until the other attempts are
written, and only then starts it. If the suspect ends well, it is cleared.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from rota.clock.protocol import later
from rota.clock.timeout import timeout_after
from rota.jobs import Quarantine as Severity
from rota.jobs import assess_quarantine
from rota.policy.gates import Closed
from rota.worker.attempts import HANDED_BACK, Attempt, Flow, Result, Stage
from rota.worker.executor import Executor
from rota.worker.job_events import job_set_apart
from rota.worker.settings import Resources

ALONE_FOR = timedelta(seconds=10)
"""How long a slight suspect waits for others to end, and how long others then wait for it."""

PATIENT_FOR = timedelta(hours=1)
"""How long a severe suspect waits for others to end; it is then deferred by as much again.

Others wait this long for a running suspect, which may hang. A job that has run for an hour is not a
likely killer. If it is one after all, the jobs beside it lose one attempt, because it runs no more.
"""

NO_LIMIT = 1 << 20


class Quarantine:
    """The suspect that has a worker to itself, or waits for that; one at a time.

    ``allowance`` is how many jobs may be leased at once: one suspect is rarely alone, and what is
    leased together with one is handed back.
    """

    def __init__(self, resources: Resources, flow: Flow, executor: Executor) -> None:
        self.allowance = NO_LIMIT
        self._resources = resources
        self._flow = flow
        self._executor = executor
        self._suspect: Attempt | None = None
        self._waiting: Attempt | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_claimed(self) -> bool:
        """Whether nothing may be leased, because a suspect runs or is next."""
        return self._suspect is not None and self._suspect.stage is not Stage.ENDED

    @property
    def is_waiting(self) -> bool:
        """Whether a suspect waits to be alone."""
        return self._waiting is not None and self._waiting.stage is Stage.WAITING

    def admit(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """The attempts that may start now.

        The first suspect waits until it is alone. Attempts after it are handed back, as they would
        be lost with it.
        """
        if not any([it.job.loss_count for it in attempts]):  # noqa: C419 - a list is made faster
            self.allowance = min(2 * self.allowance, NO_LIMIT)
            return attempts
        for at, suspect in enumerate(attempts):
            if assess_quarantine(suspect.job):
                self._claim(suspect)
                now = self._resources.clock.now()
                for attempt in attempts[at + 1 :]:
                    self._flow.end(attempt, HANDED_BACK, now)
                return attempts[:at]
        return attempts

    def hand_back(self) -> None:
        """Hand back the suspect that waits, if there is one."""
        if self._waiting is not None and self.is_waiting:
            self._flow.end(self._waiting, HANDED_BACK, self._resources.clock.now())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _claim(self, suspect: Attempt) -> None:
        self.close()
        self.allowance = 1
        self._suspect = self._waiting = suspect
        self._resources.events.emit(job_set_apart(suspect))
        self._task = asyncio.create_task(self._run_alone(suspect))

    async def _run_alone(self, suspect: Attempt) -> None:
        """Start the suspect when it is alone, and let others in when it has ended.

        Neither wait is endless: a worker may also be lost for reasons of its own, and a handler may
        hang. A slight suspect then starts beside others; a severe one is deferred.
        """
        is_severe = assess_quarantine(suspect.job) is Severity.SEVERE
        longest = PATIENT_FOR if is_severe else ALONE_FOR
        await self._wait_while(lambda: self.is_waiting and len(self._flow.held) > 1, longest)
        if not self.is_waiting:
            return
        if is_severe and len(self._flow.held) > 1:
            now = self._resources.clock.now()
            closed = Closed(later(now, PATIENT_FOR), "waits for a worker that can run it alone")
            self._flow.end(suspect, Result(closed), now)
            return
        self._waiting = None
        self._executor.submit([suspect])
        await self._wait_while(lambda: suspect.stage is not Stage.ENDED, longest)
        self._suspect = None
        self._flow.changed.set()

    async def _wait_while(self, condition: Callable[[], bool], longest: timedelta) -> None:
        with suppress(TimeoutError):
            async with timeout_after(self._resources.clock, longest):
                await self._flow.wait_while(condition)
