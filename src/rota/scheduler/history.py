"""The last runs of each task: when each was due, when it started and ended, and how.

History is for people. It is written after the results, in few large writes, and never holds a task
up: if the store fails, or if far more tasks end than can be noted, runs are missing from it.
"""

from operator import attrgetter
from typing import Literal

import msgspec

from rota.errors import StoreError
from rota.scheduler.task import Instant
from rota.stores.documents import decode_body, find_document
from rota.stores.protocol import DocumentStore, DocumentWrite

HISTORY = "scheduler.history"
TASKS_PER_WRITE = 200
MOST_PENDING = 2_000
"""The number of tasks whose runs wait to be written. Runs of further tasks are not noted."""

LONGEST_ERROR = 300

RunOutcome = Literal["succeeded", "failed", "interrupted"]


class TaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended. ``scheduled_at`` is the occurrence, or when the retry was due.

    ``reason`` is why it started: occurrence, catch-up, retry, interrupted or requested. The end of
    an interrupted run is not known.
    """

    scheduled_at: Instant
    started_at: Instant
    ended_at: Instant | None = None
    outcome: RunOutcome
    reason: str
    error: str | None = None


_encode = msgspec.json.Encoder().encode
_RUNS = tuple[TaskRun, ...]


class RunHistory:
    """Notes the runs of one scheduler, and writes them. ``kept_count`` runs of a task are kept."""

    def __init__(self, store: DocumentStore, kept_count: int) -> None:
        self._store = store
        self._kept_count = kept_count
        self._pending: dict[str, list[TaskRun]] = {}

    def note(self, name: str, run: TaskRun) -> None:
        if not self._kept_count:
            return
        if name in self._pending or len(self._pending) < MOST_PENDING:
            self._pending.setdefault(name, []).append(run)

    async def save(self) -> None:
        """Write the runs of some tasks. What another instance writes first is tried again later."""
        chosen = {name: self._pending.pop(name) for name in list(self._pending)[:TASKS_PER_WRITE]}
        if not chosen:
            return
        try:
            missed = await self._write(chosen)
        except StoreError:
            missed = chosen
        for name, runs in missed.items():
            self._pending[name] = runs + self._pending.get(name, [])

    async def save_all(self) -> None:
        """Write what is left, as well as one pass can."""
        for _ in range(0, len(self._pending), TASKS_PER_WRITE):
            await self.save()

    async def _write(self, chosen: dict[str, list[TaskRun]]) -> dict[str, list[TaskRun]]:
        """Write these runs; returns those that could not be written."""
        stored = await self._store.read(HISTORY, list(chosen))
        writes = []
        for name, runs in chosen.items():
            found = stored.get(name)
            earlier = decode_body(found, _RUNS, ())
            # A clock that was set back does not lose a run.
            newest_first = sorted([*earlier, *runs], key=attrgetter("started_at"), reverse=True)
            body = _encode(newest_first[: self._kept_count])
            version = None if found is None else found.version
            writes.append(DocumentWrite(HISTORY, name, version, body))
        answers = await self._store.write_each(writes)
        pairs = zip(chosen.items(), answers, strict=True)
        return {name: runs for (name, runs), version in pairs if version is None}


def cut_error(text: str) -> str:
    """The beginning of an error, as history keeps it."""
    return text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…"


async def read_history(store: DocumentStore, name: str) -> tuple[TaskRun, ...]:
    """The last runs of a task, newest first."""
    found = await find_document(store, HISTORY, name)
    return decode_body(found, _RUNS, ())
