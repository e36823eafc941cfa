"""Jobs as Django's task results."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from rota.django.tasks_api import Task, TaskError, TaskResult, TaskResultStatus
from rota.jobs import Attempt, Job, JobStatus

_STATUSES = {
    JobStatus.PENDING: TaskResultStatus.READY,
    JobStatus.READY: TaskResultStatus.READY,
    JobStatus.RUNNING: TaskResultStatus.RUNNING,
    JobStatus.COMPLETED: TaskResultStatus.SUCCESSFUL,
    JobStatus.FAILED: TaskResultStatus.FAILED,
    JobStatus.BLOCKED: TaskResultStatus.FAILED,
}

_EXCEPTION_LINE = re.compile(r"^([A-Za-z_][\w.]*)(: .*)?$", re.MULTILINE)
_UNKNOWN_ERROR = "builtins.Exception"


class Payload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a job that runs a Django task."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    priority: int = 0
    run_after: datetime | None = None


def build_result(
    task: Task, job: Job, attempts: Sequence[Attempt] = (), result: bytes | None = None
) -> TaskResult:
    """The job as a task result. ``attempts`` are all that have ended, the first one first."""
    payload = msgspec.convert(job.payload, Payload)
    started = [attempt.started_at for attempt in attempts]
    workers = [attempt.worker for attempt in attempts]
    if job.lease is not None:
        started.append(job.lease.taken_at)
        workers.append(job.lease.worker)
    built = TaskResult(
        task=task,
        id=job.id,
        status=_STATUSES[job.status],
        enqueued_at=job.created_at,
        started_at=started[0] if started else None,
        finished_at=_finished_at(job, attempts),
        last_attempted_at=started[-1] if started else None,
        args=payload.args,
        kwargs=payload.kwargs,
        backend=task.backend,
        errors=[_read_error(each) for each in attempts if each.outcome != "succeeded"],
        worker_ids=workers,
    )
    if result is not None:
        object.__setattr__(built, "_return_value", msgspec.json.decode(result))
    return built


def _finished_at(job: Job, attempts: Sequence[Attempt]) -> datetime | None:
    if not job.status.is_terminal:
        return None
    return attempts[-1].ended_at if attempts else job.updated_at


def _read_error(attempt: Attempt) -> TaskError:
    text = attempt.traceback or attempt.error or ""
    return TaskError(exception_class_path=_find_class(text), traceback=text)


def _find_class(text: str) -> str:
    """The path of the exception class: the last line of a traceback starts with it."""
    after_frames = text[text.rfind("\n  File ") + 1 :]
    found = [match[1] for match in _EXCEPTION_LINE.finditer(after_frames)]
    if not found:
        return _UNKNOWN_ERROR
    return found[0] if "." in found[0] else f"builtins.{found[0]}"
