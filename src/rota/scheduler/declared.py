"""What schedulers declare about their tasks for other processes: how to read their expressions.

A task's record has no zone, no policy, and no time by which it must have succeeded. All are in one
document, so that any process can explain the tasks and find those that are late, also while no
scheduler lives.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from hashlib import blake2s
from typing import Any

import msgspec

from rota.errors import StoreError
from rota.scheduler.policy import Override, Removed, SchedulerContext, SchedulerPolicy
from rota.scheduler.registration import AcceptedTask, Callback
from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import DocumentStore, DocumentWrite
from rota.triggers.cron import Dialect
from rota.triggers.zone import Fold, load_zone

DECLARED = "scheduler.declared"
LATEST = "latest"

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Watched:
    """A callback with a dead-man switch: pass it in place of the callback of a registration.

    There is an alert when the task has not succeeded ``alert_after`` one of its occurrences.
    """

    callback: Callback
    alert_after: timedelta

    def __call__(self) -> Any:
        """Call the callback."""
        return self.callback()


class DeclaredTasks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The zone and the policy of all tasks, field by field; and the dead-man switches by task.

    ``zone`` is None if it has no IANA name. ``alert_seconds`` has only the tasks with a switch.
    ``digest`` changes with the names and expressions of the tasks.
    """

    zone: str | None
    dialect: Dialect = "posix"
    fold: Fold = "both"
    override: Override = "keep_history"
    removed: Removed = "silent"
    alert_seconds: dict[str, float] = {}
    digest: str = ""

    @property
    def policy(self) -> SchedulerPolicy:
        """The policy, as far as it concerns observers."""
        return SchedulerPolicy(
            repeated_hour=self.fold,
            dialect=self.dialect,
            override=self.override,
            removed=self.removed,
        )

    def load_zone(self) -> tzinfo | None:
        return None if self.zone is None else load_zone(self.zone)

    def alert_after(self, task_name: str) -> timedelta | None:
        seconds = self.alert_seconds.get(task_name)
        return None if seconds is None else timedelta(seconds=seconds)


async def note_declared(context: SchedulerContext, accepted: Sequence[AcceptedTask]) -> None:
    """Write what this scheduler declares, unless that is stored. The last scheduler counts."""
    made = _declare(context, accepted)
    with suppress(StoreError):  # for observers only: the tasks run without it
        found = await find_document(context.store, DECLARED, LATEST)
        body = msgspec.json.encode(made, order="sorted")
        if found is None or found.body != body:
            version = None if found is None else found.version
            await context.store.write_each([DocumentWrite(DECLARED, LATEST, version, body)])


def _declare(context: SchedulerContext, accepted: Sequence[AcceptedTask]) -> DeclaredTasks:
    zone = "UTC" if context.zone is UTC else getattr(context.zone, "key", None)
    return DeclaredTasks(
        zone=zone,
        dialect=context.policy.dialect,
        fold=context.policy.repeated_hour,
        override=context.policy.override,
        removed=context.policy.removed,
        alert_seconds={
            it.name: it.callback.alert_after / _SECOND
            for it in accepted
            if isinstance(it.callback, Watched)
        },
        digest=_digest(accepted),
    )


def _digest(accepted: Sequence[AcceptedTask]) -> str:
    texts = sorted((it.name, it.cron.text) for it in accepted)
    return blake2s(msgspec.json.encode(texts), digest_size=16).hexdigest()


async def read_declared(store: DocumentStore) -> DeclaredTasks | None:
    """What the last scheduler declared; None if there was none."""
    return decode_body(await find_document(store, DECLARED, LATEST), DeclaredTasks, None)
