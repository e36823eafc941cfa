"""What operators ask of the schedulers of a store: to run a task now, to pause it, to resume it.

Each order is a document. Schedulers look for them every few seconds, and at once if the order comes
from their own process. A pause also writes the task's record again, unchanged. A scheduler that
claims the task later finds a newer version, reads it again, and then sees the pause. So no run
starts after ``pause_task`` has returned.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from rota.clock.protocol import Clock
from rota.errors import ConflictError, TaskNotRegisteredError
from rota.scheduler.due_heap import DueHeap
from rota.scheduler.presence import wake_local_instances
from rota.scheduler.storage import TASKS
from rota.scheduler.task import TaskPause
from rota.stores.documents import all_documents, decode_body, find_document
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

REQUESTS = "scheduler.requests"
PAUSES = "scheduler.pauses"
ROUND_LIMIT = 20
"""How often a write is decided again because others write the same document."""


class RunRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to run a task now."""

    requested_at: datetime


class StoredPause(NamedTuple):
    """A pause, and the version of its document."""

    pause: TaskPause
    version: int


async def check_registered(store: DocumentStore, name: str) -> None:
    """Raises TaskNotRegisteredError when the store has no task with that name."""
    await _read_record(store, name)


async def request_run(store: DocumentStore, clock: Clock, name: str) -> None:
    """Ask the schedulers to run a task once, now, in addition to its schedule.

    A request that is already waiting stays as it is. Raises TaskNotRegisteredError when the store
    has no task with that name.
    """
    await check_registered(store, name)
    body = msgspec.json.encode(RunRequest(clock.now()))
    await store.write_each([DocumentWrite(REQUESTS, name, None, body)])
    wake_local_instances(store)


async def take_requests(store: DocumentStore) -> list[str]:
    """The tasks that an operator asked to run now. Each request is returned once."""
    documents = [document async for document in all_documents(store, REQUESTS)]
    if not documents:
        return []
    removals = [DocumentWrite(REQUESTS, it.key, it.version, None) for it in documents]
    taken = await store.write_each(removals)
    return [it.key for it, version in zip(documents, taken, strict=True) if version is not None]


async def pause_task(
    store: DocumentStore, clock: Clock, name: str, who: str = "", why: str = ""
) -> TaskPause:
    """Let no run of the task start until it is resumed. A run in progress finishes.

    A task that is paused already keeps its first pause. Raises TaskNotRegisteredError when the
    store has no task with that name.
    """
    await check_registered(store, name)
    made = TaskPause(at=clock.now(), who=who, why=why)
    for _ in range(ROUND_LIMIT):
        found = await find_pause(store, name)
        if found is not None and found.pause.is_active:
            made = found.pause
            break
        if await _write_pause(store, name, made, None if found is None else found.version):
            break
    else:
        raise _outrun(name)
    await _touch(store, name)
    wake_local_instances(store)
    return made


async def resume_task(
    store: DocumentStore, clock: Clock, name: str, *, catch_up: bool = False
) -> bool:
    """Go on with the next occurrence; returns False if the task was not paused.

    Occurrences that passed during the pause are skipped; with ``catch_up`` one run covers them now.
    """
    await check_registered(store, name)
    for _ in range(ROUND_LIMIT):
        found = await find_pause(store, name)
        if found is None or not found.pause.is_active:
            return False
        ended = None if catch_up else found.pause.end(clock.now())
        if await _write_pause(store, name, ended, found.version):
            wake_local_instances(store)
            return True
    raise _outrun(name)


async def find_pause(store: DocumentStore, name: str) -> StoredPause | None:
    """The pause of a task, active or ended; None if there is none that can be read."""
    found = await find_document(store, PAUSES, name)
    return None if found is None else _decode(found)


async def read_pauses(store: DocumentStore) -> dict[str, StoredPause]:
    """The pauses of all tasks, active and ended, by name."""
    return {it.key: _decode(it) async for it in all_documents(store, PAUSES)}


async def list_paused(store: DocumentStore) -> dict[str, TaskPause]:
    """As ``read_pauses``, without versions."""
    return {name: each.pause for name, each in (await read_pauses(store)).items()}


class Orders:
    """Carries the orders of operators into the due heap of one scheduler."""

    def __init__(self, store: DocumentStore, heap: DueHeap) -> None:
        self._store = store
        self._heap = heap
        self._known: Mapping[str, StoredPause] = {}
        self._is_due = True

    def expect(self) -> None:
        """There may be new orders, or tasks that have not heard of the present ones."""
        self._is_due = True

    async def catch_up(self) -> None:
        """Read the orders and apply them. Call it after tasks were read, never before."""
        if not self._is_due:
            return
        self._is_due = False
        try:
            pauses = await read_pauses(self._store)
            requested = await take_requests(self._store)
        except BaseException:
            self._is_due = True
            raise
        self._apply_pauses(pauses)
        for name in requested:
            task = self._heap.tasks.get(name)
            if task is not None:
                task.is_requested = True
                self._heap.reconsider(task)
        await self._forget_ended(pauses)

    def _apply_pauses(self, pauses: Mapping[str, StoredPause]) -> None:
        for name in {*self._known, *pauses}:
            task = self._heap.tasks.get(name)
            pause = pauses[name].pause if name in pauses else None
            if task is not None and task.pause != pause:
                task.pause = pause
                self._heap.reconsider(task)
        self._known = pauses

    async def _forget_ended(self, pauses: Mapping[str, StoredPause]) -> None:
        """Remove ended pauses that no longer say anything: the task has started since."""
        spent = [
            DocumentWrite(PAUSES, name, version, None)
            for name, (pause, version) in pauses.items()
            if (task := self._heap.tasks.get(name)) is not None
            and pause.resumed_at is not None
            and task.state.answered_until is not None
            and pause.resumed_at <= task.state.answered_until
        ]
        if spent:
            await self._store.write_each(spent)


async def _write_pause(
    store: DocumentStore, name: str, pause: TaskPause | None, version: int | None
) -> bool:
    body = None if pause is None else msgspec.json.encode(pause)
    (written,) = await store.write_each([DocumentWrite(PAUSES, name, version, body)])
    return written is not None


async def _touch(store: DocumentStore, name: str) -> None:
    """Write the record again, so that a claim decided before fails."""
    for _ in range(ROUND_LIMIT):
        record = await _read_record(store, name)
        write = DocumentWrite(TASKS, name, record.version, record.body)
        if (await store.write_each([write]))[0] is not None:
            return
    raise _outrun(name)


async def _read_record(store: DocumentStore, name: str) -> Document:
    found = await find_document(store, TASKS, name)
    if found is None:
        raise TaskNotRegisteredError(name)
    return found


def _decode(document: Document) -> StoredPause:
    """A pause that cannot be read holds: an operator wrote something there."""
    unknown = TaskPause(why="its pause cannot be read; resume the task to remove it")
    return StoredPause(decode_body(document, TaskPause, unknown), document.version)


def _outrun(name: str) -> ConflictError:
    return ConflictError(
        f"Task {name} keeps being changed by other callers; try again", {"task": name}
    )
