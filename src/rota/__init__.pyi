from rota import errors as errors
from rota import events as events
from rota.app import Rota as Rota
from rota.handle import JobHandle as JobHandle
from rota.jobs import BackoffStrategy as BackoffStrategy
from rota.jobs import Job as Job
from rota.jobs import JobStatus as JobStatus
from rota.jobs import RetryPolicy as RetryPolicy
from rota.poller import Poller as Poller
from rota.rail import Rail as Rail
from rota.runtime.wiring import open_store as open_store
from rota.schedule import ScheduleHandle as ScheduleHandle
from rota.scheduler import DECLARATIVE as DECLARATIVE
from rota.scheduler import POLLING as POLLING
from rota.scheduler import Scheduler as Scheduler
from rota.scheduler import SchedulerPolicy as SchedulerPolicy
from rota.scheduler import SchedulerSettings as SchedulerSettings
from rota.schedules import SchedulePlan as SchedulePlan
from rota.task import Task as Task
from rota.triggers.cron import parse_cron as parse_cron
from rota.triggers.rrule import parse_rrule as parse_rrule
from rota.worker import Context as Context
from rota.worker import Discard as Discard
from rota.worker import Snooze as Snooze
from rota.worker import Worker as Worker
from rota.worker import WorkerSettings as WorkerSettings

__all__ = [
    "DECLARATIVE",
    "POLLING",
    "BackoffStrategy",
    "Context",
    "Discard",
    "Job",
    "JobHandle",
    "JobStatus",
    "Poller",
    "Rail",
    "RetryPolicy",
    "Rota",
    "ScheduleHandle",
    "SchedulePlan",
    "Scheduler",
    "SchedulerPolicy",
    "SchedulerSettings",
    "Snooze",
    "Task",
    "Worker",
    "WorkerSettings",
    "errors",
    "events",
    "open_store",
    "parse_cron",
    "parse_rrule",
]
__version__: str
