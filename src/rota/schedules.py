"""Schedules of an app: what ``@app.schedule`` declares."""

from collections.abc import Callable, Mapping
from datetime import timedelta, tzinfo
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from rota.jobs import Overlap, RetryPolicy
from rota.signature import locate
from rota.task import Task
from rota.triggers.zone import Fold, Gap

When: TypeAlias = Any
"""Cron text in the extended dialect, RRULE text, a ``timedelta``, or a trigger."""

CatchUp: TypeAlias = Literal["once", "skip", "all"]


class DeclaredSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it was declared; ``declared_at`` is ``file:line``."""

    name: str
    task: Task[..., Any]
    when: When
    zone: tzinfo | str | None = None
    gap: Gap | None = None
    fold: Fold | None = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "once"
    jitter: timedelta | str | None = None
    retry: RetryPolicy | Mapping[str, Any] | int | None = None
    tenant: str | None = None
    args: Mapping[str, Any] = {}
    declared_at: str


class SchedulingApp(Protocol):
    """An app, as far as schedules need it."""

    schedules: list[DeclaredSchedule]

    def task(self, function: Any, /) -> Any:
        """Declare a task."""
        ...


def declare(
    app: SchedulingApp, when: When, *, name: str | None = None, **options: Any
) -> Callable[[Any], Any]:
    """The decorator that ``app.schedule`` returns: it declares a function, or schedules a task."""

    def decorate(function: Any) -> Any:
        task: Task[..., Any] = function if isinstance(function, Task) else app.task(function)
        app.schedules.append(
            DeclaredSchedule(
                name=name or task.name,
                task=task,
                when=when,
                declared_at=locate(task.function),
                **options,
            )
        )
        return task

    return decorate
