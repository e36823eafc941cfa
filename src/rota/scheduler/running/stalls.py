"""Names the callback that keeps the event loop from turning."""

from datetime import timedelta

from rota.clock.loop_watch import LoopWatch, Stall
from rota.clock.protocol import keeps_real_time
from rota.events import TaskBlockedLoop
from rota.scheduler.surroundings import Surroundings

RUN_PREFIX = "rota task "
"""The asyncio task of a run is called this and the task's name."""

_MILLISECOND = timedelta(milliseconds=1)


class StallWatch:
    """Watches while callbacks run, and costs nothing while none does.

    Only real time can be held up: under a virtual clock there is nothing to watch.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self._journal = surroundings.journal
        limit = surroundings.settings.stall_warning_after
        is_real = keeps_real_time(surroundings.clock)
        self._watch = LoopWatch(self._report, limit=limit) if limit and is_real else None

    def start(self) -> None:
        if self._watch is not None:
            self._watch.start()

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def _report(self, stall: Stall) -> None:
        if stall.task_name is not None and stall.task_name.startswith(RUN_PREFIX):
            self._journal.emit(
                TaskBlockedLoop(
                    task_name=stall.task_name.removeprefix(RUN_PREFIX),
                    duration=stall.blocked_for / _MILLISECOND,
                    location=stall.where,
                )
            )
