"""What this instance believes about its tasks, held against what the store says.

Belief and store part when another instance writes first, when a write fails without telling whether
it took effect, or when an instance dies. Then the store is read again, and it decides.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from rota.events import EventEmitter, TaskRunDiscarded, TaskSkipped
from rota.scheduler.keeping.ledger import BrokenRecord, StoredTask, TaskLedger
from rota.scheduler.keeping.presence import Presence
from rota.scheduler.running.agenda import Agenda, Task
from rota.scheduler.tasks.state import TaskState, reconfigure


class Custody:
    """The tasks of one instance: which are in doubt, and which end is yet to be written."""

    def __init__(
        self, presence: Presence, agenda: Agenda, ledger: TaskLedger, journal: EventEmitter
    ) -> None:
        self.unsaved: dict[str, Task] = {}
        self._presence = presence
        self._agenda = agenda
        self._ledger = ledger
        self._journal = journal
        self._doubtful: dict[str, Task] = {}
        self._living: frozenset[str] = frozenset()
        self._is_census_due = False
        self._run_elsewhere: dict[str, Task] = {}
        self._watched_since: datetime | None = None

    def doubt(self, tasks: Iterable[Task]) -> None:
        """Do not trust what is remembered of these; read them before deciding anything."""
        self._doubtful.update((task.state.name, task) for task in tasks)

    def watch(self, task: Task, now: datetime) -> None:
        """Another instance runs this task: be told nothing of its end, but ask again soon."""
        self._run_elsewhere[task.state.name] = task
        self._watched_since = self._watched_since or now

    def next_look_at(self, every: timedelta) -> datetime | None:
        """When to ask what became of the tasks that run elsewhere; None when there are none."""
        return None if self._watched_since is None else self._watched_since + every

    def look_elsewhere(self, now: datetime, every: timedelta) -> None:
        """Doubt what is believed to run elsewhere, unless it was asked for a short while ago.

        An instance may live and yet do nothing, for its process is suspended or its loop blocked.
        What it has ended must not wait for it.
        """
        since = self._watched_since
        if since is not None and not since <= now < since + every:
            self.doubt(self._run_elsewhere.values())
            self._run_elsewhere.clear()
            self._watched_since = None

    def see_living(self, living: frozenset[str]) -> None:
        """Take note of who is alive; when somebody came or went, everything is looked at anew."""
        if living != self._living:
            self._is_census_due = self._is_census_due or bool(self._living)
            self._living = living

    def call_census(self) -> None:
        """Somebody left: look at everything anew."""
        self._is_census_due = True

    async def catch_up(self) -> None:
        """Read what is in doubt and believe the store."""
        if self._doubtful:
            await self._read_the_doubtful()
        if self._is_census_due:
            await self._take_census()

    async def _read_the_doubtful(self) -> None:
        tasks = list(self._doubtful.values())
        found = await self._ledger.find(tasks)
        if any(self._is_run_by_a_stranger(it) for it in found.values()):
            self.see_living(await self._presence.find_living())
        self._doubtful.clear()
        for task in tasks:
            self._adopt(task, found.get(task.state.name))

    async def _take_census(self) -> None:
        """Somebody came or went: their tasks may need a new runner, or have a new configuration.

        Who is alive is asked after the tasks were read: whoever claims anything has announced
        itself before. Whoever comes or goes in the meantime calls for another census.
        """
        self._is_census_due = False
        try:
            changed = await self._find_changed()
            self._living = await self._presence.find_living()
        except BaseException:
            self._is_census_due = True
            raise
        for task, found in changed:
            self._adopt(task, found)

    async def _find_changed(self) -> list[tuple[Task, StoredTask | BrokenRecord | None]]:
        missing = dict(self._agenda.tasks)
        changed: list[tuple[Task, StoredTask | BrokenRecord | None]] = []
        async for found in self._ledger.scan({}):
            task = missing.pop(found.name, None)
            if task is not None and (found.version != task.version or task.state.running):
                changed.append((task, found))
        return changed + [(task, None) for task in missing.values()]

    def _adopt(self, task: Task, found: StoredTask | BrokenRecord | None) -> None:
        if not isinstance(found, StoredTask):
            self._let_go(task, found)
            return
        is_ours = found.state.running and self._is_me(found.state.scheduler_identifier)
        is_superseded = self._is_superseded(task, found.state)
        if task.is_held or task.state.name in self.unsaved:
            self._keep_result(task, found, is_ours=is_ours)
        else:
            task.state = found.state
            task.is_interrupted = self._is_interrupted(found.state)
        task.version = found.version
        if is_superseded:
            self._drop(task, "another instance registered it differently")
        elif self._agenda.tasks.get(task.state.name) is task:
            self._agenda.reconsider(task)

    def _keep_result(self, task: Task, found: StoredTask, *, is_ours: bool) -> None:
        """A run of ours goes on or has ended: it counts only while the claim is still ours."""
        if is_ours:
            stored = found.state
            task.state = reconfigure(task.state, stored.cron_expression, stored.retry_delay_ms)
        elif task.state.name in self.unsaved:
            del self.unsaved[task.state.name]
            if found.state != task.state:
                self._discard(task, "another instance has taken the task over")
                task.state = found.state
                task.is_interrupted = self._is_interrupted(found.state)

    def _is_interrupted(self, state: TaskState) -> bool:
        """Claimed by an instance that is dead, or by this one in a write whose reply was lost."""
        runner = state.scheduler_identifier
        return state.running and (self._is_me(runner) or runner not in self._living)

    def _is_run_by_a_stranger(self, found: StoredTask | BrokenRecord) -> bool:
        """An instance that is not known to be alive may be dead, or new."""
        return isinstance(found, StoredTask) and self._is_interrupted(found.state)

    def _is_me(self, identifier: str | None) -> bool:
        return identifier == self._presence.identifier

    def _is_superseded(self, task: Task, stored: TaskState) -> bool:
        return (
            stored.cron_expression != task.schedule.cron.text
            or stored.retry_delay_ms != task.state.retry_delay_ms
        )

    def _let_go(self, task: Task, found: BrokenRecord | None) -> None:
        name = task.state.name
        if self.unsaved.pop(name, None) is not None:
            self._discard(task, "the task is no longer stored")
        if found is None:
            self._drop(task, "another instance removed it")
        else:
            self._drop(task, f"its stored record cannot be read: {found.error}")

    def _drop(self, task: Task, reason: str) -> None:
        if self._agenda.tasks.get(task.state.name) is task:
            self._agenda.remove(task.state.name)
            self._journal.emit(TaskSkipped(task_name=task.state.name, reason=reason))

    def _discard(self, task: Task, reason: str) -> None:
        self._journal.emit(TaskRunDiscarded(task_name=task.state.name, reason=reason))
