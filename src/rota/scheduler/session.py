"""One life of a scheduler, from a successful initialize() to the end of stop()."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from uuid import uuid4

from rota.errors import (
    SchedulerInitializationError,
    ScheduleTaskError,
    StoreError,
    TaskListMismatchError,
)
from rota.scheduler.declared import note_declared
from rota.scheduler.due_heap import DueHeap, Task
from rota.scheduler.history import HISTORY
from rota.scheduler.loop import TaskLoop
from rota.scheduler.orders import PAUSES
from rota.scheduler.ownership import Ownership
from rota.scheduler.policy import SchedulerContext
from rota.scheduler.presence import Presence
from rota.scheduler.reconciliation import Moment, Reconciliation, TaskDecision, reconcile_store
from rota.scheduler.registration import AcceptedTask
from rota.scheduler.storage import remove_notes
from rota.scheduler.task import reconfigure

logger = logging.getLogger("rota.scheduler")


class Session:
    """Registers tasks, runs them, and ends."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self.identifier = uuid4().hex
        self.heap = DueHeap(context.zone, context.policy.repeated_hour)
        self._presence = Presence(
            context.store, context.clock, self.identifier, context.settings.peer_silent_for
        )
        self._ownership = Ownership(self._presence, self.heap, context.store, context.events)
        self.loop = TaskLoop(context, self.heap, self._ownership)
        self._life: asyncio.Task[None] | None = None
        self._peer_watch: asyncio.Task[None] | None = None

    async def register(self, accepted: Sequence[AcceptedTask]) -> Reconciliation:
        """Reconcile store and heap with the registrations; on failure neither has changed."""
        async with self.loop.turn:
            try:
                if self._life is None:
                    await self._appear()
                decided = await self._reconcile(accepted)
            except (ScheduleTaskError, TaskListMismatchError):
                raise
            except Exception as error:
                raise SchedulerInitializationError(error) from error
            self._populate(decided, self._context.clock.now())
            self.loop.orders.expect()
        self.loop.wake()
        return decided

    @property
    def is_polling(self) -> bool:
        return self._life is not None and bool(self.heap.tasks)

    def start(self) -> None:
        """Begin to look for due tasks."""
        self._life = asyncio.create_task(self.loop.run(), name="rota scheduler")
        self._presence.live_as(self._life, self._notice_change)
        if self._presence.has_peers_elsewhere:
            self._peer_watch = asyncio.create_task(self._watch_peers(), name="rota peer watch")

    async def finish(self) -> None:
        """Start nothing more, wait for the runs, write their results, and leave."""
        try:
            if self._life is not None:
                self.loop.request_stop()
                await self._life
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Remove the announcement of this instance. If the store fails, others detect its end."""
        if self._peer_watch is not None:
            self._peer_watch.cancel()
            await asyncio.wait({self._peer_watch})  # its last announcement must not come later
        with suppress(Exception):
            await self._presence.withdraw()

    async def _appear(self) -> None:
        life = asyncio.current_task()
        if life is not None:
            self._presence.live_as(life)
        await self._presence.announce()

    async def _reconcile(self, accepted: Sequence[AcceptedTask]) -> Reconciliation:
        if self._life is not None:
            await self._ownership.catch_up()
        living = await self._presence.find_living()
        self._ownership.see_living(living)
        moment = Moment(self._context.clock.now(), self.identifier, living)
        by_name = {task.name: task for task in accepted}
        decided = await reconcile_store(self._context, by_name, moment, self._presence.find_living)
        await note_declared(self._context, accepted)
        removed = [stored.name for stored in decided.removed]
        await remove_notes(self._context.store, (HISTORY, PAUSES), removed)
        return decided

    def _populate(self, decided: Reconciliation, now: datetime) -> None:
        held = self.loop.runs.held_tasks()
        for name in [name for name in self.heap.tasks if name not in decided.tasks]:
            self.heap.remove(name)
        for decision in decided.tasks.values():
            name = decision.accepted.name
            task = self.heap.tasks.get(name)
            if task is not None:
                self._update(task, decision, now)
                continue
            task = self._make_task(decision, now)
            if name in held:
                # Removed while it ran and registered again before the run ended: it waits for it.
                held[name].become(task)
                task = held[name]
            self.heap.add(task)

    def _make_task(self, decision: TaskDecision, now: datetime) -> Task:
        schedule = self.heap.schedule_for(decision.accepted.cron, now)
        state, callback = decision.reconciled.state, decision.accepted.callback
        task = Task(state, decision.version_after, callback, schedule)
        task.is_interrupted = self._is_interrupted(decision)
        return task

    def _is_interrupted(self, decision: TaskDecision) -> bool:
        """Its instance died, or this instance claimed it in a write whose answer was lost."""
        state = decision.reconciled.state
        is_claimed_here = state.running and state.scheduler_identifier == self.identifier
        return decision.reconciled.is_interrupted or is_claimed_here

    def _update(self, task: Task, decision: TaskDecision, now: datetime) -> None:
        """A known task: a run continues, with the new configuration."""
        accepted = decision.accepted
        task.callback = accepted.callback
        task.version = decision.version_after
        if task.is_held or accepted.name in self._ownership.unsaved:
            task.state = reconfigure(task.state, accepted.cron.text, accepted.retry_delay_ms)
        else:
            task.state = decision.reconciled.state
            task.is_interrupted = self._is_interrupted(decision)
        if task.schedule.cron.text != accepted.cron.text:
            self.heap.move(task, self.heap.schedule_for(accepted.cron, now))
        self.heap.reconsider(task)

    def _notice_change(self) -> None:
        """An instance of this process left the store, or an operator asked for something."""
        self._ownership.request_rescan()
        self.loop.orders.expect()
        self.loop.wake()

    async def _watch_peers(self) -> None:
        """Announce this instance regularly, and see which others are alive."""
        while True:
            await self._context.clock.sleep(self._context.settings.peers_checked_every)
            try:
                await self._check_peers()
            except StoreError:
                pass  # the loop uses the same store and reports it
            except Exception:
                logger.exception("The check of other schedulers failed; it is tried again")

    async def _check_peers(self) -> None:
        self._ownership.see_living(await self._presence.find_living())
        await self._presence.keep_alive()
        await self._presence.remove_dead()
        self.loop.orders.expect()
        self.loop.wake()
