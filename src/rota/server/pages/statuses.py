"""The state of a job, a queue, a series, a task or a run as a word, a shape and a tone."""

from datetime import UTC, datetime, timedelta
from functools import singledispatch
from typing import NamedTuple

from rota.jobs import Ending, Job, JobState, JobStatus, find_state
from rota.jobs.job_state import StateFacts, judge_state
from rota.ops.overview import Failure
from rota.ops.queues import QueueReport
from rota.ops.series import SeriesRun, SeriesSummary
from rota.ops.tasks import TaskSummary
from rota.policy.gates import Maintenance
from rota.scheduler.history import TaskRun
from rota.telemetry.health import LATE_AFTER

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class Sign(NamedTuple):
    """``word`` names the state, ``shape`` an icon and ``tone`` a colour. Each alone is enough."""

    word: str
    shape: str
    tone: str


_LOOKS = {
    JobState.PENDING: ("dashed", "quiet"),
    JobState.SCHEDULED: ("clock", "quiet"),
    JobState.HELD: ("hand", "amber"),
    JobState.RETRYING: ("again", "amber"),
    JobState.PAUSED: ("pause", "quiet"),
    JobState.DUE: ("ring", "blue"),
    JobState.RUNNING: ("play", "blue"),
    JobState.STALLED: ("alert", "red"),
    JobState.COMPLETED: ("check", "green"),
    JobState.DEAD: ("cross", "red"),
    JobState.DISCARDED: ("bin", "red"),
    JobState.CANCELLED: ("slash", "quiet"),
    JobState.BLOCKED: ("bar", "amber"),
}
SIGNS = {state: Sign(state.value, *look) for state, look in _LOOKS.items()}
FAILED = Sign("failed", "cross", "red")
"""For an attempt, or a run of a task: a job that has failed for good is in a state of its own."""

NO_WORKER = Sign("no worker", "alert", "red")
LATE = Sign("late", "clock", "amber")
_WORKING = Sign("working", "play", "blue")
_WAITING = Sign("waiting", "ring", "blue")
_IDLE = Sign("idle", "dashed", "quiet")
CLOSED = Sign("closed now", "pause", "amber")
_PLANNED = Sign("planned", "clock", "quiet")
_SKIPPED = Sign("skipped", "slash", "amber")
_INTERRUPTED = Sign("interrupted", "alert", "amber")
_ENDED = Sign("ended", "check", "quiet")
_CANNOT_CONTINUE = Sign("cannot continue", "alert", "red")
_RUN_SIGNS = {"succeeded": SIGNS[JobState.COMPLETED], "failed": FAILED}


@singledispatch
def sign_of(shown: object, now: datetime) -> Sign:
    """The state of what is shown; of a job it is finer than its status."""
    raise TypeError(f"{type(shown).__name__} at {now} has no state")


@sign_of.register
def _of_job(job: Job, now: datetime) -> Sign:
    return SIGNS[find_state(job, now)]


@sign_of.register
def _of_failure(failure: Failure, _now: datetime) -> Sign:
    return sign_of_end(JobStatus.FAILED, None if failure.ending is None else Ending(failure.ending))


@sign_of.register
def _of_queue(queue: QueueReport, _now: datetime) -> Sign:
    if queue.pauses:
        return SIGNS[JobState.PAUSED]
    if queue.stalled_count:
        return SIGNS[JobState.STALLED]
    if queue.due_count and not queue.worker_count:
        return NO_WORKER
    if queue.late_seconds > LATE_AFTER.total_seconds():
        return LATE
    if queue.running_count:
        return _WORKING
    return _WAITING if queue.due_count else _IDLE


@sign_of.register
def _of_maintenance(window: Maintenance, now: datetime) -> Sign:
    return CLOSED if window.from_at is None or window.from_at <= now else _PLANNED


@sign_of.register
def _of_series(series: SeriesSummary, now: datetime) -> Sign:
    if series.ended_at is not None:
        return _ENDED
    if series.problem:
        return _CANNOT_CONTINUE
    if series.is_paused:
        return SIGNS[JobState.PAUSED]
    if series.status is JobStatus.READY:
        is_due = series.next_at is not None and series.next_at <= now
        return SIGNS[JobState.DUE] if is_due else SIGNS[JobState.SCHEDULED]
    return sign_of_end(series.status)


@sign_of.register
def _of_series_run(run: SeriesRun, _now: datetime) -> Sign:
    return _SKIPPED if run.is_skipped else sign_of_end(run.status, run.ending)


@sign_of.register
def _of_task(task: TaskSummary, _now: datetime) -> Sign:
    if task.is_interrupted:
        return _INTERRUPTED._replace(tone="red")
    if task.phase == "Running":
        return SIGNS[JobState.RUNNING]
    if task.is_paused:
        return SIGNS[JobState.PAUSED]
    return SIGNS[JobState.RETRYING] if task.retry_at is not None else SIGNS[JobState.SCHEDULED]


@sign_of.register
def _of_task_run(run: TaskRun, _now: datetime) -> Sign:
    return _RUN_SIGNS.get(run.outcome, _INTERRUPTED)


def sign_of_end(status: JobStatus, ending: Ending | None = None) -> Sign:
    """The state of a job of which only the status and the ending are known."""
    return SIGNS[judge_state(StateFacts(status, _LONG_AGO, ending=ending), _LONG_AGO)]


def measure_run(job: Job, now: datetime) -> timedelta | None:
    """How long the attempt of a completed job took, or how long a running one has been running."""
    if job.completion is not None:
        return job.completion.lasted_for
    return None if job.lease is None else now - job.lease.taken_at


def find_worker(job: Job) -> str:
    """Who runs the job, or completed it."""
    if job.completion is not None:
        return job.completion.worker
    return "" if job.lease is None else job.lease.worker


def count_attempts(job: Job) -> int:
    """The attempts so far, with the one that runs and the one that succeeded."""
    has_one_more = job.status in {JobStatus.RUNNING, JobStatus.COMPLETED}
    return job.attempt_count + has_one_more
