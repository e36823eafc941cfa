"""Registrations and stored states: what is new, kept, changed, interrupted or removed.

The decision alone; nothing is read or written here. ``Scheduler.initialize`` carries it out and
``Scheduler.plan`` shows it, so a plan cannot differ from the deed.
"""

from collections.abc import Container, Mapping
from datetime import datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from rota.scheduler.policy import SchedulerPolicy
from rota.scheduler.tasks.registration import AcceptedTask
from rota.scheduler.tasks.state import TaskState


class Standing(Enum):
    """How a registered task stands to what is stored under its name."""

    NEW = "new"
    KEPT = "kept"
    CHANGED = "changed"


class FieldChange(NamedTuple):
    """One field of a task's configuration, before and after."""

    field: str
    before: str | int
    after: str | int


class Reconciled(NamedTuple):
    """One registered task, decided. ``is_interrupted``: its runner died under it; run it now."""

    standing: Standing
    state: TaskState
    changes: tuple[FieldChange, ...]
    is_interrupted: bool


class Moment(NamedTuple):
    """By whom and when the decision is taken, and which instances are alive."""

    now: datetime
    identifier: str
    living: Container[str | None]


def reconcile_task(
    accepted: AcceptedTask, stored: TaskState | None, policy: SchedulerPolicy, moment: Moment
) -> Reconciled:
    """Decide one task. A run by a living instance goes on undisturbed, whatever else changes."""
    if stored is None:
        return Reconciled(Standing.NEW, _new_task(accepted, moment), (), is_interrupted=False)
    is_running = stored.running and stored.scheduler_identifier in moment.living
    is_interrupted = stored.running and not is_running
    changes = list_changes(stored, accepted)
    if changes and policy.override == "reset" and not is_running:
        state = _new_task(accepted, moment)
    else:
        state = _carry_on(stored, accepted, moment)
    standing = Standing.CHANGED if changes else Standing.KEPT
    return Reconciled(standing, state, changes, is_interrupted)


def list_changes(stored: TaskState, accepted: AcceptedTask) -> tuple[FieldChange, ...]:
    """Identical means: the text of the expression and the delay match exactly."""
    changes = []
    if stored.cron_expression != accepted.cron.text:
        changes.append(FieldChange("cronExpression", stored.cron_expression, accepted.cron.text))
    if stored.retry_delay_ms != accepted.retry_delay_ms:
        changes.append(FieldChange("retryDelayMs", stored.retry_delay_ms, accepted.retry_delay_ms))
    return tuple(changes)


def list_removed(stored: Mapping[str, object], accepted: Mapping[str, object]) -> list[str]:
    """Stored names that nobody registers any more, in order."""
    return sorted(name for name in stored if name not in accepted)


def _new_task(accepted: AcceptedTask, moment: Moment) -> TaskState:
    return TaskState(
        name=accepted.name,
        cron_expression=accepted.cron.text,
        retry_delay_ms=accepted.retry_delay_ms,
        registered_at=moment.now,
        running=False,
        scheduler_identifier=moment.identifier,
    )


def _carry_on(stored: TaskState, accepted: AcceptedTask, moment: Moment) -> TaskState:
    """The same history on the registration's terms and, to save memory, its very strings.

    A record that tells neither of a run nor of its registration counts as registered now.
    """
    registered_at = stored.registered_at
    if registered_at is None and stored.last_attempt_at is None:
        registered_at = moment.now
    return msgspec.structs.replace(
        stored,
        name=accepted.name,
        cron_expression=accepted.cron.text,
        retry_delay_ms=accepted.retry_delay_ms,
        registered_at=registered_at,
        scheduler_identifier=stored.scheduler_identifier or moment.identifier,
    )
