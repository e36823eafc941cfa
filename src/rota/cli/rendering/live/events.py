"""What happens in a house, one line for each event, with nothing a terminal would act upon."""

from datetime import timedelta

from rota.cli.rendering.durations import format_duration
from rota.escape import escape
from rota.events import (
    Event,
    JobDeferred,
    JobEvent,
    JobFailed,
    JobSettled,
    JobStalled,
    SchedulerStopped,
    SchedulerStopRequested,
    TaskAdded,
    TaskRetryStarted,
    TaskRunCompleted,
    TaskRunFailed,
    TaskRunStarted,
    TasksOverridden,
    WorkerStarted,
    WorkerStopped,
    WorkerStopping,
)

_MILLISECOND = timedelta(milliseconds=1)
LONGEST_ERROR = 200


def describe_event(event: Event) -> str:
    """The event in a few words; one that has none is told with all its fields."""
    if isinstance(event, JobEvent):
        words = _describe_job(event)
    else:
        words = _describe_task(event) or _describe_scheduler(event) or _describe_worker(event)
    if words is not None:
        return escape(words)
    fields = ", ".join(f"{key} {value}" for key, value in event.fields().items())
    return escape(f"{event.name}{': ' if fields else ''}{fields}")


def format_milliseconds(duration: float) -> str:
    if duration < 1_000:
        return f"{duration:.0f} ms"
    return format_duration(timedelta(milliseconds=duration))


def _describe_task(event: Event) -> str | None:
    match event:
        case TaskRunStarted(task_name=name, scheduled_time=due_at, actual_time=at):
            return f"{name} started, {format_milliseconds((at - due_at) / _MILLISECOND)} late"
        case TaskRunCompleted(task_name=name, duration=duration):
            return f"{name} succeeded in {format_milliseconds(duration)}"
        case TaskRunFailed(task_name=name, error=error):
            return f"{name} failed: {error}"
        case TaskRetryStarted(task_name=name, retry_count=count):
            return f"{name} is tried again, retry {count}"
    return None


def _describe_scheduler(event: Event) -> str | None:
    match event:
        case TaskAdded(task_name=name, cron_expression=cron):
            return f"{name} is a new task: {cron}"
        case TasksOverridden(removed_tasks=removed, added_tasks=added, modified_tasks=changed):
            return f"tasks: {len(added)} added, {len(changed)} changed, {len(removed)} removed"
        case SchedulerStopRequested():
            return "scheduler starts no more tasks"
        case SchedulerStopped():
            return "scheduler stopped"
    return None


def _describe_worker(event: Event) -> str | None:
    match event:
        case WorkerStarted(kinds=kinds, concurrency=count):
            return f"worker started: {', '.join(kinds) or 'no kinds'}; {count} at once"
        case WorkerStopping(running_count=count):
            return f"worker takes no more jobs; {count} still running"
        case WorkerStopped(manner=manner, handed_back_count=count):
            return f"worker stopped, {manner}" + (f"; {count} handed back" if count else "")
    return None


def _describe_job(event: JobEvent) -> str | None:
    job = f"{event.kind} {event.job_id}"
    if event.tenant != "default":
        job += f" of {event.tenant}"
    match event:
        case JobFailed(error=error, state="queued", due_at=due_at):
            again = f"again at {due_at:%H:%M:%S}Z"
            return f"{job} failed, attempt {event.attempt}, {again}: {error[:LONGEST_ERROR]}"
        case JobFailed(error=error):
            return f"{job} failed for good, attempt {event.attempt}: {error[:LONGEST_ERROR]}"
        case JobSettled(outcome=outcome, duration_ms=duration):
            return f"{job} {outcome} in {format_milliseconds(duration)}"
        case JobDeferred(reason=reason, until=until):
            return f"{job} held back until {until:%Y-%m-%d %H:%M:%S}Z: {reason}"
        case JobStalled(worker=worker):
            return f"{job} was taken from {worker}, whose lease ran out"
    return None
