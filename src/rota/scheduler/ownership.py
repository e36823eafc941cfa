"""Which tasks this instance owns, compared with the store.

Memory and store differ when another instance writes first, when a write fails without saying
whether it took effect, or when an instance dies. Then the store is read again, and it decides.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rota.events import EventEmitter, PollingStopped, TaskRunDiscarded, TaskSkipped
from rota.scheduler.due_heap import DueHeap, Task
from rota.scheduler.presence import Presence
from rota.scheduler.storage import BrokenRecord, StoredTask, find_tasks, scan_tasks, write_task
from rota.scheduler.task import TaskState, reconfigure
from rota.stores.protocol import DocumentStore


class Ownership:
    """The tasks of one instance: which are in doubt, and which results are not written yet."""

    def __init__(
        self, presence: Presence, heap: DueHeap, store: DocumentStore, events: EventEmitter
    ) -> None:
        self.unsaved: dict[str, Task] = {}
        self._presence = presence
        self._heap = heap
        self._store = store
        self._events = events
        self._doubtful: dict[str, Task] = {}
        self._living: frozenset[str] = frozenset()
        self._is_rescan_due = False
        self._run_elsewhere: dict[str, Task] = {}
        self._watched_since: datetime | None = None

    @property
    def identifier(self) -> str:
        return self._presence.identifier

    async def save(self, tasks: Sequence[Task], states: Sequence[TaskState]) -> list[bool]:
        """Write each task's state unless another instance changed the task; returns which.

        Tasks that could not be written are in doubt afterwards.
        """
        writes = [
            write_task(state, task.version) for task, state in zip(tasks, states, strict=True)
        ]
        try:
            versions = await self._store.write_each(writes)
        except BaseException:
            self.doubt(tasks)  # the write may have taken effect
            raise
        for task, version in zip(tasks, versions, strict=True):
            if version is None:
                self.doubt([task])
            else:
                task.version = version
        return [version is not None for version in versions]

    def doubt(self, tasks: Iterable[Task]) -> None:
        """Read these tasks again before any decision about them."""
        self._doubtful.update((task.name, task) for task in tasks)

    def watch(self, task: Task, now: datetime) -> None:
        """Another instance runs this task and will not report its end: ask the store soon."""
        self._run_elsewhere[task.name] = task
        self._watched_since = self._watched_since or now

    def next_check_at(self, every: timedelta) -> datetime | None:
        """When to check on the tasks that run elsewhere; None when there are none."""
        return None if self._watched_since is None else self._watched_since + every

    def check_elsewhere(self, now: datetime, every: timedelta) -> None:
        """Doubt the tasks that run elsewhere, unless they were checked a short while ago.

        An instance may be alive but suspended or blocked. The tasks that it ended must not wait
        for it.
        """
        since = self._watched_since
        if since is not None and not since <= now < since + every:
            self.doubt(self._run_elsewhere.values())
            self._run_elsewhere.clear()
            self._watched_since = None

    def see_living(self, living: frozenset[str]) -> None:
        """Note which instances are alive. When that changed, all tasks are read again."""
        if living != self._living:
            self._is_rescan_due = self._is_rescan_due or bool(self._living)
            self._living = living

    def request_rescan(self) -> None:
        """An instance left: read all tasks again."""
        self._is_rescan_due = True

    async def catch_up(self) -> bool:
        """Read the tasks in doubt and adopt what the store says; returns whether any was read."""
        has_doubts, is_rescan_due = bool(self._doubtful), self._is_rescan_due
        if has_doubts:
            await self._read_doubtful()
        if is_rescan_due or self._is_rescan_due:
            await self._rescan()
        return has_doubts or is_rescan_due

    async def _read_doubtful(self) -> None:
        tasks = list(self._doubtful.values())
        found = await find_tasks(self._store, [task.name for task in tasks])
        if any(self._is_run_by_a_stranger(it) for it in found.values()):
            self.see_living(await self._presence.find_living())
        self._doubtful.clear()
        for task in tasks:
            self._adopt(task, found.get(task.name))

    async def _rescan(self) -> None:
        """Instances came or left: their tasks may need a new owner or have a new configuration.

        The living are read after the tasks, because an instance announces itself before it claims
        a task. An instance that comes or leaves meanwhile causes another rescan.
        """
        self._is_rescan_due = False
        try:
            changed = await self._find_changed()
            self._living = await self._presence.find_living()
        except BaseException:
            self._is_rescan_due = True
            raise
        for task, found in changed:
            self._adopt(task, found)

    async def _find_changed(self) -> list[tuple[Task, StoredTask | BrokenRecord | None]]:
        missing = dict(self._heap.tasks)
        changed: list[tuple[Task, StoredTask | BrokenRecord | None]] = []
        async for found in scan_tasks(self._store):
            task = missing.pop(found.name, None)
            if task is not None and (found.version != task.version or task.state.running):
                changed.append((task, found))
        return changed + [(task, None) for task in missing.values()]

    def _adopt(self, task: Task, found: StoredTask | BrokenRecord | None) -> None:
        if not isinstance(found, StoredTask):
            self._let_go(task, found)
            return
        is_ours = found.state.running and found.state.scheduler_identifier == self.identifier
        is_superseded = (
            found.state.cron_expression != task.schedule.cron.text
            or found.state.retry_delay_ms != task.state.retry_delay_ms
        )
        if task.is_held or task.name in self.unsaved:
            self._keep_result(task, found, is_ours=is_ours)
        else:
            task.state = found.state
            task.is_interrupted = self._is_interrupted(found.state)
        task.version = found.version
        if is_superseded:
            self._drop(task, "another instance registered it differently")
        elif self._heap.tasks.get(task.name) is task:
            self._heap.reconsider(task)

    def _keep_result(self, task: Task, found: StoredTask, *, is_ours: bool) -> None:
        """A run in this instance counts only while the claim is still ours."""
        if is_ours:
            stored = found.state
            task.state = reconfigure(task.state, stored.cron_expression, stored.retry_delay_ms)
        elif task.name in self.unsaved:
            del self.unsaved[task.name]
            if found.state != task.state:
                self._discard(task, "another instance has taken the task over")
                task.state = found.state
                task.is_interrupted = self._is_interrupted(found.state)

    def _is_interrupted(self, state: TaskState) -> bool:
        """Claimed by a dead instance, or by this one in a write whose answer was lost."""
        owner = state.scheduler_identifier
        return state.running and (owner == self.identifier or owner not in self._living)

    def _is_run_by_a_stranger(self, found: StoredTask | BrokenRecord) -> bool:
        """An instance that is not known to be alive may be dead, or new."""
        return isinstance(found, StoredTask) and self._is_interrupted(found.state)

    def _let_go(self, task: Task, found: BrokenRecord | None) -> None:
        if self.unsaved.pop(task.name, None) is not None:
            self._discard(task, "the task is no longer stored")
        if found is None:
            self._drop(task, "another instance removed it")
        else:
            self._drop(task, f"its stored record cannot be read: {found.error}")

    def _drop(self, task: Task, reason: str) -> None:
        if self._heap.tasks.get(task.name) is task:
            self._heap.remove(task.name)
            self._events.emit(TaskSkipped(task_name=task.name, reason=reason))
            if not self._heap.tasks:
                self._events.emit(PollingStopped())

    def _discard(self, task: Task, reason: str) -> None:
        self._events.emit(TaskRunDiscarded(task_name=task.name, reason=reason))
