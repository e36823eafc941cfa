"""What an operator sees of the tasks on a store, and may ask for, without being a scheduler."""

from datetime import datetime

import msgspec

from rota.clock.protocol import Clock
from rota.errors import TaskNotRegisteredError
from rota.scheduler.keeping.ledger import REQUESTS, TASKS, BrokenRecord, TaskLedger
from rota.scheduler.keeping.presence import Presence
from rota.scheduler.policy import SchedulerSettings
from rota.scheduler.tasks.state import TaskState
from rota.stores.protocol import DocumentStore, DocumentWrite


class Overview(msgspec.Struct, frozen=True):
    """The tasks a store holds, by name; those that cannot be read; and who is alive."""

    tasks: tuple[TaskState, ...]
    unreadable: tuple[str, ...]
    living: frozenset[str]


class RunRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Somebody wants a task to run now."""

    requested_at: datetime


class TaskDesk:
    """Looks at a store's tasks from outside. Only ``request_run`` writes, and only a request."""

    def __init__(self, store: DocumentStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def look(self) -> Overview:
        tasks: list[TaskState] = []
        unreadable: list[str] = []
        async for found in TaskLedger(self._store).scan({}):
            if isinstance(found, BrokenRecord):
                unreadable.append(found.name)
            else:
                tasks.append(found.state)
        return Overview(tuple(tasks), tuple(unreadable), await self.find_living())

    async def find_living(self) -> frozenset[str]:
        """The schedulers that are alive on this store."""
        silent_for = SchedulerSettings().peer_silent_for
        return await Presence(self._store, self._clock, "", silent_for).find_living()

    async def check_registered(self, name: str) -> None:
        """Raises TaskNotRegisteredError when the store holds no such task."""
        if name not in await self._store.read(TASKS, [name]):
            raise TaskNotRegisteredError(name)

    async def request_run(self, name: str) -> None:
        """Ask whichever scheduler looks next to run a task once, now, beside its schedule.

        A request that is already waiting stays as it is. Raises TaskNotRegisteredError when the
        store holds no such task.
        """
        await self.check_registered(name)
        body = msgspec.json.encode(RunRequest(self._clock.now()))
        await self._store.write_each([DocumentWrite(REQUESTS, name, None, body)])
