"""Names the job whose handler keeps the event loop from turning."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from rota.clock.loop_watch import LoopWatch, Stall
from rota.clock.protocol import keeps_real_time
from rota.events import LoopBlocked
from rota.worker.running.held import Held, Runner
from rota.worker.surroundings import Surroundings

STALL_LIMIT = timedelta(seconds=1)

_MILLISECOND = timedelta(milliseconds=1)


def watch_loop(
    surroundings: Surroundings, runners: Mapping[str, Runner]
) -> AbstractContextManager[object]:
    """Watch while the context lasts. Only real time can be held up."""
    if not keeps_real_time(surroundings.clock):
        return nullcontext()

    blocker: Held | None = None

    def report(stall: Stall) -> None:
        nonlocal blocker
        if not stall.is_over:  # when it is over, its runner may have gone on to another job
            runner = runners.get(stall.task_name or "")
            blocker = None if runner is None else runner.held
        surroundings.journal.emit(
            LoopBlocked(
                duration=stall.blocked_for / _MILLISECOND,
                location=stall.where,
                job_id=None if blocker is None else blocker.job.id,
                kind=None if blocker is None else blocker.job.kind,
                is_over=stall.is_over,
            )
        )

    return LoopWatch(report, limit=STALL_LIMIT)
