"""What initialize() would do, without doing it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache

import msgspec

from rota.errors import InvalidCronExpressionError
from rota.scheduler.keeping.intake import Decided, Intake, decide_intake
from rota.scheduler.keeping.ledger import TaskLedger
from rota.scheduler.keeping.presence import Presence
from rota.scheduler.surroundings import Surroundings
from rota.scheduler.tasks.reconcile import FieldChange, Moment, Standing
from rota.scheduler.tasks.registration import AcceptedTask
from rota.triggers.parse import parse_cron

OCCURRENCES_SHOWN = 5
END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class PlannedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: what would become of it, and its next occurrences before and after.

    ``standing`` is new, kept, changed or removed. ``is_interrupted``: it was running when its
    instance died, and would be started at once.
    """

    name: str
    standing: str
    is_interrupted: bool = False
    changes: tuple[FieldChange, ...] = ()
    occurrences_before: tuple[datetime, ...] = ()
    occurrences_after: tuple[datetime, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """Every registered or stored task, in the order of their names, as of ``made_at``."""

    made_at: datetime
    tasks: tuple[PlannedTask, ...]
    unreadable: tuple[str, ...] = ()

    @property
    def new(self) -> list[PlannedTask]:
        return self._standing("new")

    @property
    def kept(self) -> list[PlannedTask]:
        return self._standing("kept")

    @property
    def changed(self) -> list[PlannedTask]:
        return self._standing("changed")

    @property
    def removed(self) -> list[PlannedTask]:
        return self._standing("removed")

    @property
    def interrupted(self) -> list[PlannedTask]:
        return [task for task in self.tasks if task.is_interrupted]

    @property
    def has_changes(self) -> bool:
        return bool(self.unreadable) or any(task.standing != "kept" for task in self.tasks)

    def _standing(self, standing: str) -> list[PlannedTask]:
        return [task for task in self.tasks if task.standing == standing]


async def make_plan(surroundings: Surroundings, accepted: Sequence[AcceptedTask]) -> Plan:
    """The same decision that ``initialize`` would take at this moment. Writes nothing."""
    now = surroundings.clock.now()
    presence = Presence(
        surroundings.store, surroundings.clock, "", surroundings.settings.peer_silent_for
    )
    moment = Moment(now, "", await presence.find_living())
    by_name = {task.name: task for task in accepted}
    ledger = TaskLedger(surroundings.store)
    intake = await decide_intake(ledger, by_name, surroundings.policy, moment, presence.find_living)
    tasks = _list_tasks(surroundings, intake, now)
    unreadable = tuple(sorted(record.name for record in intake.broken))
    return Plan(now, tuple(sorted(tasks, key=lambda task: task.name)), unreadable)


def _list_tasks(surroundings: Surroundings, intake: Intake, now: datetime) -> list[PlannedTask]:
    @cache
    def upcoming(expression: str) -> tuple[datetime, ...]:
        return list_occurrences(surroundings, expression, now)

    tasks = [
        PlannedTask(
            name=name,
            standing=decided.reconciled.standing.value,
            is_interrupted=decided.reconciled.is_interrupted,
            changes=decided.reconciled.changes,
            occurrences_before=_before(decided, upcoming),
            occurrences_after=upcoming(decided.accepted.cron.text),
        )
        for name, decided in intake.tasks.items()
    ]
    tasks.extend(
        PlannedTask(
            name=stored.name,
            standing="removed",
            occurrences_before=upcoming(stored.state.cron_expression),
        )
        for stored in intake.removed
    )
    return tasks


def _before(
    decided: Decided, upcoming: Callable[[str], tuple[datetime, ...]]
) -> tuple[datetime, ...]:
    if decided.reconciled.standing is Standing.NEW:
        return ()
    before = decided.before or decided.reconciled.state
    return upcoming(before.cron_expression)


def list_occurrences(
    surroundings: Surroundings, expression: str, now: datetime
) -> tuple[datetime, ...]:
    """The next few occurrences; none for stored text that is no expression of this dialect."""
    policy, zone = surroundings.policy, surroundings.zone
    try:
        cron = parse_cron(expression, dialect=policy.dialect)
    except InvalidCronExpressionError:
        return ()
    return tuple(
        cron.between(now, END_OF_TIME, zone, limit=OCCURRENCES_SHOWN, fold=policy.repeated_hour)
    )
