"""Declarative tasks: specifications 1 and 2."""

from rota.scheduler.declared import Watched
from rota.scheduler.policy import DECLARATIVE, POLLING, SchedulerPolicy, SchedulerSettings
from rota.scheduler.queries import Explanation, Plan, PlannedTask
from rota.scheduler.scheduler import PollingState, Scheduler, SchedulerState
from rota.scheduler.storage import parse_task_record
from rota.scheduler.task import TaskPhase, TaskState

__all__ = [
    "DECLARATIVE",
    "POLLING",
    "Explanation",
    "Plan",
    "PlannedTask",
    "PollingState",
    "Scheduler",
    "SchedulerPolicy",
    "SchedulerSettings",
    "SchedulerState",
    "TaskPhase",
    "TaskState",
    "Watched",
    "parse_task_record",
]
