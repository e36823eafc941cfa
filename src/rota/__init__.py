"""Rota: background jobs, schedules and workflows for Python.

All public names are here; ``rota.testing`` holds what tests need. A name is
imported from its module when it is first used, so that ``import rota`` and ``rota --version`` cost
nothing else. Type checkers read ``__init__.pyi``.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "DECLARATIVE": "rota.scheduler",
    "POLLING": "rota.scheduler",
    "BackoffStrategy": "rota.jobs",
    "Context": "rota.worker",
    "Discard": "rota.worker",
    "Job": "rota.jobs",
    "JobHandle": "rota.handle",
    "JobStatus": "rota.jobs",
    "Poller": "rota.poller",
    "Rail": "rota.rail",
    "RetryPolicy": "rota.jobs",
    "Rota": "rota.app",
    "ScheduleHandle": "rota.schedule",
    "SchedulePlan": "rota.schedules",
    "Scheduler": "rota.scheduler",
    "SchedulerPolicy": "rota.scheduler",
    "SchedulerSettings": "rota.scheduler",
    "Snooze": "rota.worker",
    "Task": "rota.task",
    "Worker": "rota.worker",
    "WorkerSettings": "rota.worker",
    "open_store": "rota.runtime.wiring",
    "parse_cron": "rota.triggers.cron",
    "parse_rrule": "rota.triggers.rrule",
}
_SUBMODULES = ("errors", "events")

__all__ = [*_MODULES, *_SUBMODULES]  # noqa: PLE0604 - all of them are strings


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"rota.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
