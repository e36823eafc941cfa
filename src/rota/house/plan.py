"""What a house is to run."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any, TypeAlias

import msgspec

from rota.clock.protocol import Clock
from rota.house.engines import WorkPlan
from rota.house.web import Binding
from rota.stores.opened import OpenStore
from rota.worker import WorkerSettings

ListTasks: TypeAlias = Callable[[OpenStore, Clock], Sequence[Any]]
"""Registrations, made when the store is open: some tasks look after it."""


class TaskPlan(msgspec.Struct, frozen=True):
    """Which declarative tasks run, on the clock of which zone."""

    list_tasks: ListTasks
    zone: tzinfo | None = None


class HousePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which store, and what of it runs: what is None does not.

    ``binding`` is where API and pages are. ``greets`` gives a new store a first token and, once the
    tasks are scheduled, a first job.
    """

    store_url: str
    binding: Binding | None = None
    work: WorkPlan | None = None
    tasks: TaskPlan | None = None
    greets: bool = False

    @property
    def worker_settings(self) -> WorkerSettings:
        return WorkerSettings() if self.work is None else self.work.settings
