"""What initialize() does to the store: read, decide, and bring it in line in one step."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from rota.errors import ScheduleTaskError, StaleVersionError, TaskListMismatchError
from rota.scheduler.keeping.ledger import (
    BrokenRecord,
    StoredTask,
    TaskLedger,
    keep_aside,
    remove_task,
    write_task,
)
from rota.scheduler.policy import SchedulerPolicy
from rota.scheduler.tasks.reconcile import Moment, Reconciled, Standing, reconcile_task
from rota.scheduler.tasks.registration import AcceptedTask
from rota.scheduler.tasks.state import TaskState
from rota.stores.protocol import DocumentWrite

ATTEMPTS = 5
"""How often the decision is taken anew when other instances write in between."""


FindLiving: TypeAlias = Callable[[], Awaitable[frozenset[str]]]


class Decided(NamedTuple):
    """One registered task: what is to become of it.

    ``version`` is the stored one, if any. ``before`` is kept only where something is told of it: a
    million unchanged tasks are not held twice.
    """

    accepted: AcceptedTask
    reconciled: Reconciled
    version: int | None
    needs_write: bool
    before: TaskState | None = None

    @property
    def version_after(self) -> int:
        return (self.version or 0) + int(self.needs_write)


class Intake(NamedTuple):
    """The whole decision."""

    tasks: dict[str, Decided]
    removed: list[StoredTask]
    broken: list[BrokenRecord]


async def decide_intake(
    ledger: TaskLedger,
    accepted: Mapping[str, AcceptedTask],
    policy: SchedulerPolicy,
    moment: Moment,
    find_living: FindLiving,
) -> Intake:
    """Compare every registration with what is stored. Writes nothing."""
    decided: dict[str, Decided] = {}
    removed: list[StoredTask] = []
    broken: dict[str, BrokenRecord] = {}
    async for found in ledger.scan(accepted):
        registration = accepted.get(found.name)
        if isinstance(found, BrokenRecord):
            broken[found.name] = found
        elif registration is None:
            removed.append(found)
        else:
            reconciled = reconcile_task(registration, found.state, policy, moment)
            decided[registration.name] = _decide_stored(registration, reconciled, found)
    for name, registration in accepted.items():
        if name not in decided:
            reconciled = reconcile_task(registration, None, policy, moment)
            version = broken[name].version if name in broken else None
            decided[name] = Decided(registration, reconciled, version, needs_write=True)
    if any(it.reconciled.is_interrupted for it in decided.values()):
        _spare_the_living(decided, policy, moment._replace(living=await find_living()))
    return Intake(decided, removed, list(broken.values()))


def _spare_the_living(decided: dict[str, Decided], policy: SchedulerPolicy, moment: Moment) -> None:
    """Decide anew on seemingly interrupted tasks, by who is alive after they were read.

    An instance announces itself before it claims anything, so whoever is not alive now, is dead; of
    one that appeared while the tasks were being read, that could not be said before.
    """
    for name, it in decided.items():
        if it.reconciled.is_interrupted and it.before is not None:
            reconciled = reconcile_task(it.accepted, it.before, policy, moment)
            decided[name] = it._replace(reconciled=reconciled)


def _decide_stored(
    registration: AcceptedTask, reconciled: Reconciled, found: StoredTask
) -> Decided:
    is_kept = reconciled.standing is Standing.KEPT
    before = None if is_kept and not reconciled.is_interrupted else found.state
    needs_write = found.is_foreign or not is_kept
    return Decided(registration, reconciled, found.version, needs_write, before)


async def carry_out(
    ledger: TaskLedger,
    accepted: Mapping[str, AcceptedTask],
    policy: SchedulerPolicy,
    moment: Moment,
    find_living: FindLiving,
) -> Intake:
    """Decide and write, all or nothing; decide anew when another instance wrote in between."""
    for _ in range(ATTEMPTS):
        intake = await decide_intake(ledger, accepted, policy, moment, find_living)
        try:
            await ledger.replace(list_writes(intake, moment.identifier))
        except StaleVersionError as error:
            latest = error
        except Exception as error:
            raise _name_the_task(intake, error) from error
        else:
            return intake
    raise TaskListMismatchError(sorted(accepted), [latest.key]) from latest


def list_writes(intake: Intake, identifier: str) -> Iterator[DocumentWrite]:
    """The writes, as a stream. A broken record's bytes are kept aside before it is replaced."""
    for record in intake.broken:
        yield keep_aside(record, identifier)
        if record.name not in intake.tasks:
            yield remove_task(record.name, record.version)
    for stored in intake.removed:
        yield remove_task(stored.name, stored.version)
    for decided in intake.tasks.values():
        if decided.needs_write:
            yield write_task(decided.reconciled.state, decided.version)


def _name_the_task(intake: Intake, cause: Exception) -> ScheduleTaskError:
    """The store cannot say which write failed; the first one stands for all."""
    for decided in intake.tasks.values():
        if decided.needs_write:
            return ScheduleTaskError(decided.accepted.name, decided.accepted.cron.text, cause)
    for stored in intake.removed:
        return ScheduleTaskError(stored.name, stored.state.cron_expression, cause)
    return ScheduleTaskError(intake.broken[0].name if intake.broken else "", "", cause)
