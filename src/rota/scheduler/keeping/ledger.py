"""The scheduler's side of the store: tasks read, claimed, settled and set aside.

Every write names the version it was decided on. A write that comes too late changes nothing and is
reported, and that is all that several instances on one store need to run each occurrence once.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from hashlib import blake2s
from typing import Any, NamedTuple

from rota.errors import TaskInvalidValueError, TaskTryDeserializeError
from rota.scheduler.running.agenda import Task
from rota.scheduler.tasks.record import decode_foreign_task, decode_own_task, encode_task
from rota.scheduler.tasks.registration import AcceptedTask
from rota.scheduler.tasks.state import TaskState
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

TASKS = "scheduler.tasks"
SET_ASIDE = "scheduler.set_aside"
REQUESTS = "scheduler.requests"


class StoredTask(NamedTuple):
    """A task as it was found; ``is_foreign``: written by another program, perhaps incomplete."""

    name: str
    version: int
    state: TaskState
    is_foreign: bool = False


class BrokenRecord(NamedTuple):
    """A record that could not be read, and why. Its bytes are never thrown away."""

    name: str
    version: int
    body: bytes
    error: TaskTryDeserializeError

    def kept_as(self, identifier: str) -> str:
        """Where the instance with this identifier keeps the bytes."""
        digest = blake2s(self.name.encode() + b"\0" + self.body, digest_size=16).hexdigest()
        return f"{identifier}:{digest}"


class TaskLedger:
    """Reads and writes task documents. It decides nothing."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store

    async def scan(
        self, accepted: Mapping[str, AcceptedTask]
    ) -> AsyncIterator[StoredTask | BrokenRecord]:
        """All stored tasks, one by one; a broken record never takes the others down.

        A record that lacks its configuration is completed from the registration of that name.
        """
        async for page in self._store.scan(TASKS):
            for document in page:
                yield interpret(document, _configuration(accepted.get(document.key)))

    async def find(self, tasks: Sequence[Task]) -> dict[str, StoredTask | BrokenRecord]:
        """What is stored now about these tasks; those that are gone are left out."""
        documents = await self._store.read(TASKS, [task.state.name for task in tasks])
        return {name: interpret(document, {}) for name, document in documents.items()}

    async def save(self, tasks: Sequence[Task], states: Sequence[TaskState]) -> list[bool]:
        """Write each state if nobody else wrote that task since; says which were written."""
        writes = [
            DocumentWrite(TASKS, state.name, task.version, encode_task(state))
            for task, state in zip(tasks, states, strict=True)
        ]
        written = []
        for task, version in zip(tasks, await self._store.write_each(writes), strict=True):
            if version is not None:
                task.version = version
            written.append(version is not None)
        return written

    async def replace(self, writes: Iterable[DocumentWrite]) -> None:
        """Bring the store in line in one step: all of it, or nothing at all."""
        await self._store.write_all(writes)

    async def take_requests(self) -> list[str]:
        """Names of tasks that an operator asked to run now; each request is handed out once."""
        documents = [document async for page in self._store.scan(REQUESTS) for document in page]
        if not documents:
            return []
        removals = [DocumentWrite(REQUESTS, it.key, it.version, None) for it in documents]
        taken = await self._store.write_each(removals)
        return [it.key for it, version in zip(documents, taken, strict=True) if version is not None]


def write_task(state: TaskState, version: int | None) -> DocumentWrite:
    return DocumentWrite(TASKS, state.name, version, encode_task(state))


def remove_task(name: str, version: int) -> DocumentWrite:
    return DocumentWrite(TASKS, name, version, None)


def keep_aside(record: BrokenRecord, identifier: str) -> DocumentWrite:
    return DocumentWrite(SET_ASIDE, record.kept_as(identifier), None, record.body)


def interpret(document: Document, defaults: Mapping[str, Any]) -> StoredTask | BrokenRecord:
    key, version, body = document
    state = decode_own_task(body)
    is_foreign = state is None
    try:
        if state is None:
            state = decode_foreign_task(body, defaults)
        _refuse_other_name(state, key)
    except TaskTryDeserializeError as error:
        return BrokenRecord(key, version, body, error)
    return StoredTask(key, version, state, is_foreign)


def _refuse_other_name(state: TaskState, key: str) -> None:
    if state.name != key:
        raise TaskInvalidValueError("name", state.name, f'the record is kept under "{key}"')


def _configuration(accepted: AcceptedTask | None) -> Mapping[str, Any]:
    if accepted is None:
        return {}
    return {"cronExpression": accepted.cron.text, "retryDelayMs": accepted.retry_delay_ms}
