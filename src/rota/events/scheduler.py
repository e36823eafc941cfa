"""What happens to a scheduler and its tasks."""

from datetime import datetime
from typing import Any

from rota.events.event import INFO, WARNING, Event


class SchedulerInitializationStarted(Event, frozen=True):
    total_registrations: int


class SchedulerInitializationCompleted(Event, frozen=True):
    total_registrations: int
    scheduled_count: int
    skipped_count: int


class SchedulerInitializationFailed(Event, frozen=True):
    level = WARNING
    error: str


class SchedulerReinitializationStarted(Event, frozen=True):
    total_registrations: int


class SchedulerStopRequested(Event, frozen=True):
    level = INFO


class SchedulerStopped(Event, frozen=True):
    level = INFO


class TaskRunStarted(Event, frozen=True):
    """``scheduled_time`` is the occurrence, or the retry's instant, that this run answers."""

    level = INFO
    task_name: str
    scheduled_time: datetime
    actual_time: datetime
    is_retry: bool = False


class TaskRunCompleted(Event, frozen=True, omit_defaults=False):
    level = INFO
    task_name: str
    duration: float
    success: bool = True


class TaskRunFailed(Event, frozen=True, omit_defaults=False):
    level = WARNING
    task_name: str
    duration: float
    error: str
    next_retry_at: datetime
    success: bool = False


class TaskRetryStarted(Event, frozen=True):
    level = INFO
    task_name: str
    retry_count: int


class TaskRetryPreempted(Event, frozen=True):
    level = INFO
    task_name: str
    reason: str


class PollStarted(Event, frozen=True):
    poll_time: datetime
    scheduled_task_count: int


class PollCompleted(Event, frozen=True):
    poll_time: datetime
    tasks_evaluated: int
    tasks_executed: int
    duration: float


class PollingStarted(Event, frozen=True):
    pass


class PollingStopped(Event, frozen=True):
    pass


class PollingStopRequested(Event, frozen=True):
    pass


class TaskAdded(Event, frozen=True):
    level = INFO
    task_name: str
    cron_expression: str
    retry_delay_ms: int


class TaskPreserved(Event, frozen=True):
    task_name: str


class TaskOverridden(Event, frozen=True):
    """``change_type`` lists the changed fields, comma-separated."""

    level = INFO
    task_name: str
    change_type: str
    old_state: dict[str, Any]
    new_state: dict[str, Any]


class TasksOverridden(Event, frozen=True):
    """The whole override at a glance, when anything was added, removed or changed."""

    level = INFO
    removed_tasks: list[str]
    added_tasks: list[str]
    modified_tasks: list[dict[str, Any]]
    total_changes: int


class TaskOrphaned(Event, frozen=True, omit_defaults=False):
    level = WARNING
    task_name: str
    last_execution_time: datetime | None
    scheduler_identifier: str | None


class TaskScheduled(Event, frozen=True):
    task_name: str
    cron_expression: str
    retry_delay_ms: int


class TaskSkipped(Event, frozen=True):
    task_name: str
    reason: str


class TaskRecordSetAside(Event, frozen=True):
    """A stored record could not be read; its bytes are kept under ``kept_as``."""

    level = WARNING
    task_name: str
    error: str
    kept_as: str


class TaskRunDiscarded(Event, frozen=True):
    """A run ended, but the task had passed to another instance in the meantime."""

    level = WARNING
    task_name: str
    reason: str


class TaskBlockedLoop(Event, frozen=True):
    """A callback kept the event loop from turning, and everything else on it from running."""

    level = WARNING
    task_name: str
    duration: float
    location: str


class ClockMovedBack(Event, frozen=True):
    """The host's clock was set back, by so many milliseconds; nothing is run twice for it."""

    level = WARNING
    by: float
    now: datetime


class PollDelayed(Event, frozen=True):
    """A poll came late: the host was asleep, its clock was set, or the event loop was blocked."""

    level = WARNING
    by: float
    now: datetime
