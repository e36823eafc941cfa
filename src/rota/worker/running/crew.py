"""Those who run jobs: a fixed number of tasks that live as long as the worker does.

A job costs no task of its own. One whose handler never suspends does not even cost a turn of the
event loop; but every few milliseconds a runner lets everything else run.
"""

import asyncio
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count

from rota.clock.idle import turn
from rota.clock.protocol import later
from rota.jobs import Interrupted, Outcome, assess_quarantine
from rota.policy.gates import Closed
from rota.worker.context import CancelReason
from rota.worker.loops.settling import Settler
from rota.worker.running.dispatch import Dispatch, judge_interruption
from rota.worker.running.held import Held, Runner, Stage
from rota.worker.running.solitude import NO_LIMIT, PATIENT_FOR, Solitude
from rota.worker.surroundings import Surroundings
from rota.worker.teller import Teller

BREATH_AFTER = timedelta(milliseconds=5)
BREATH_COUNT = 500
"""After so long, or so many jobs, a runner lets the loop turn once."""

CANCEL_GRACE = timedelta(seconds=5)
"""How long a handler that was cut short may take to end, before its place is given to another."""

LEAKS_BORNE = 2
"""So many handlers that will not end are no reason to stop, however few places there are."""

RUNNER_PREFIX = "rota runner "


def is_worn_out(leaked_count: int, concurrency: int) -> bool:
    """Whether as many handlers go on in vain as there are places: the process is past saving.

    Each holds on to a thread, or at least to what its coroutine holds, and may wake at any time.
    A few are borne with even where there is one place: a thread may just be late.
    """
    return leaked_count >= max(concurrency, LEAKS_BORNE + 1)


class Crew:
    """Runs what is put into its hands, ``concurrency`` at a time, and passes on how it ended.

    ``on_change`` is called, cheaply and often, whenever a job has ended here; ``on_worn_out`` when
    so many handlers will not end that nobody should go on in this process.
    """

    def __init__(
        self, surroundings: Surroundings, settler: Settler, on_change: Callable[[], None]
    ) -> None:
        self.running_count = 0
        self.finished_count = 0
        self.leaked_count = 0
        self.on_worn_out: Callable[[], None] | None = None
        self.runners: dict[str, Runner] = {}
        self._concurrency = surroundings.settings.concurrency
        self._clock = surroundings.clock
        self._settler = settler
        self._teller = Teller(surroundings.journal)
        self._on_change = on_change
        self.solitude = Solitude(
            self._clock, settler.in_hand, self._begin_alone, self._put_off, on_change
        )
        self._dispatch = Dispatch(surroundings, self.cancel)
        self._waiting: deque[Held] = deque()
        self._resting: deque[Future[None]] = deque()
        self._numbers = count(1)
        self._is_call_pending = False
        self._is_closed = False
        self._watches: set[asyncio.Task[None]] = set()
        self._leaked: set[asyncio.Task[None]] = set()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        is_at_work = bool(self._waiting) or self.running_count > 0
        return is_at_work or self.solitude.waiting is not None

    def put(self, jobs: Sequence[Held]) -> None:
        """Have these run, in this order, as soon as there are places; not those already lost.

        The first that is under suspicion runs alone, after those before it; those after it go back.
        """
        self._waiting.extend(held for held in jobs if held.stage is Stage.WAITING)
        now = self._clock.now()
        for held in [held for held in self._waiting if held.until <= now]:
            self.cancel(held, CancelReason.LAPSED)  # the store took longer than its lease to answer
        if any([held.job.loss_count for held in jobs]):  # noqa: C419 - a list is made faster
            self._set_apart()
        elif self.solitude.allowance < NO_LIMIT:
            self.solitude.relax()
        self._call_another()

    def hand_back_waiting(self) -> None:
        """Give back what has not begun."""
        while self._waiting:
            self._end(self._waiting.popleft(), Interrupted())
        if self.solitude.waiting is not None:
            self._end(self.solitude.waiting, Interrupted())
        self._on_change()

    def cancel_all(self, reason: CancelReason) -> None:
        """Cut short whatever runs."""
        for runner in list(self.runners.values()):
            if runner.held is not None:
                self.cancel(runner.held, reason)

    def cancel(self, held: Held, reason: CancelReason) -> None:
        """Cut the attempt short, or let it not begin. One that has ended stays as it ended."""
        if not held.may_be_cut_short:
            return
        held.cancel_reason = reason
        if held.context is not None:
            held.context.cancel_reason = reason
        if reason is CancelReason.LOST:
            self._teller.tell_lost(held)
        if held.stage is Stage.WAITING:
            with suppress(ValueError):  # it may still be on its way here
                self._waiting.remove(held)
            self._abandon(held)
            self._on_change()
        elif held.runner is not None:
            self._interrupt(held.runner, held)

    def abandon_all(self) -> None:
        """Wait no longer for those who were cut short and go on all the same."""
        for runner in list(self.runners.values()):
            if runner.held is not None and runner.held.cancel_reason is not None:
                self._leak(runner, runner.held)

    async def close(self) -> None:
        """Let the runners go; those who are lost in a handler are not waited for."""
        self._is_closed = True
        self._dispatch.threads.close()
        self.solitude.close()
        tasks = [runner.task for runner in self.runners.values() if runner.task is not None]
        for task in (*tasks, *self._watches, *self._leaked):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._disown_leaked()

    async def _disown_leaked(self) -> None:
        """Let the event loop be closed in spite of coroutines that will not be cancelled.

        Whoever closes a loop cancels all its tasks and waits for them, and that would be for ever.
        """
        await turn()
        await turn()  # those that heed a second cancellation have ended now
        for task in self._leaked:
            asyncio._unregister_task(task)  # noqa: SLF001 - documented, for those who make tasks
            # What is left of it was told as a leak, and need not be told once more.
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - all tasks have it

    def _set_apart(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        while waiting and not assess_quarantine(waiting[0].job):
            self._waiting.append(waiting.popleft())
        if waiting:
            suspect = waiting.popleft()
            self._teller.tell_set_apart(suspect)
            self.solitude.claim(suspect)
        for held in waiting:  # they would be lost with it
            self._end(held, Interrupted())

    def _begin_alone(self, held: Held) -> None:
        self._waiting.append(held)
        self._call_another()

    def _put_off(self, held: Held) -> None:
        until = later(self._clock.now(), PATIENT_FOR)
        self._end(held, Closed(until, "want of a worker in which it can run alone"))
        self._on_change()

    async def _work(self, runner: Runner) -> None:
        breathed_at, job_count = self._clock.now(), 0
        try:
            while not (runner.is_dismissed or self._is_closed):
                if not self._waiting:
                    await self._rest()
                    breathed_at, job_count = self._clock.now(), 0
                    continue
                ended_at = await self._run_next(runner)
                job_count += 1
                if ended_at - breathed_at > BREATH_AFTER or job_count >= BREATH_COUNT:
                    await turn()
                    breathed_at, job_count = self._clock.now(), 0
        finally:
            self.runners.pop(runner.name, None)

    async def _run_next(self, runner: Runner) -> datetime:
        held = self._waiting.popleft()
        if self._waiting:
            self._call_another()
        held.started_at = self._clock.now()
        held.stage, held.runner, runner.held = Stage.RUNNING, runner, held
        self.running_count += 1
        outcome: Outcome | Closed = Interrupted()
        try:
            outcome = await self._dispatch.run(held)
        finally:
            runner.held = None
            if held.stage is Stage.RUNNING:  # otherwise it was given up
                self.running_count -= 1
                self._finish(held, outcome)
        return held.ended_at

    def _finish(self, held: Held, outcome: Outcome | Closed) -> None:
        if held.is_interrupted:
            self._abandon(held)
        else:
            self._end(held, outcome)
        self._on_change()

    def _abandon(self, held: Held) -> None:
        """An attempt was cut short: what is to be written depends on why."""
        if held.cancel_reason is CancelReason.LOST:
            held.stage, held.ended_at = Stage.ENDED, self._clock.now()
            self.finished_count += 1
            self._settler.in_hand.discard(held)
            self.solitude.check()
        else:
            self._end(held, judge_interruption(held))

    def _end(self, held: Held, outcome: Outcome | Closed) -> None:
        held.stage, held.ended_at = Stage.ENDED, self._clock.now()
        self.finished_count += 1
        self._settler.add(held, outcome)

    def _interrupt(self, runner: Runner, held: Held) -> None:
        """Cancel a runner; it waits in the handler of this job, for this is not called from one."""
        held.is_interrupted = True
        if runner.task is not None:
            runner.task.cancel()
        watch = asyncio.create_task(self._watch(runner, held))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, runner: Runner, held: Held) -> None:
        await self._clock.sleep(CANCEL_GRACE)
        if runner.held is held:
            self._leak(runner, held)

    def _leak(self, runner: Runner, held: Held) -> None:
        """Count the place as lost, and have another runner in its stead."""
        if runner.is_dismissed:
            return
        runner.is_dismissed = True
        self.runners.pop(runner.name, None)
        self.leaked_count += 1
        self.running_count -= 1
        if runner.task is not None:
            self._leaked.add(runner.task)
            runner.task.add_done_callback(self._leaked.discard)
        self._teller.tell_leaked(held, self.leaked_count)
        self._abandon(held)
        self._on_change()
        if self.on_worn_out is not None and is_worn_out(len(self._leaked), self._concurrency):
            self.on_worn_out()
        if self._waiting:
            self._call_another()

    def _call_another(self) -> None:
        """Wake or make one more runner, unless one is on its way; it will call the next."""
        if self._is_call_pending or not self._waiting or self._is_closed:
            return
        while self._resting:
            rest = self._resting.popleft()
            if not rest.done():
                rest.set_result(None)
                self._is_call_pending = True
                return
        if len(self.runners) < self._concurrency:
            runner = Runner(f"{RUNNER_PREFIX}{next(self._numbers)}")
            self.runners[runner.name] = runner
            runner.task = asyncio.create_task(self._begin(runner), name=runner.name)
            self._is_call_pending = True

    async def _begin(self, runner: Runner) -> None:
        self._is_call_pending = False
        await self._work(runner)

    async def _rest(self) -> None:
        rest: Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(rest)
        try:
            await rest
        finally:
            self._is_call_pending = False
