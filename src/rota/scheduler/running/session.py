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
from rota.scheduler.keeping.intake import Decided, Intake, carry_out
from rota.scheduler.keeping.ledger import TaskLedger
from rota.scheduler.keeping.presence import Presence
from rota.scheduler.running.agenda import Agenda, Task
from rota.scheduler.running.custody import Custody
from rota.scheduler.running.loop import TaskLoop
from rota.scheduler.surroundings import Surroundings
from rota.scheduler.tasks.reconcile import Moment
from rota.scheduler.tasks.registration import AcceptedTask
from rota.scheduler.tasks.state import reconfigure

logger = logging.getLogger("rota.scheduler")


class Session:
    """Takes tasks in, keeps them running, and ends."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._ledger = TaskLedger(surroundings.store)
        self.agenda = Agenda(surroundings.zone, surroundings.policy.repeated_hour)
        self.identifier = uuid4().hex
        self._presence = Presence(
            surroundings.store,
            surroundings.clock,
            self.identifier,
            surroundings.settings.peer_silent_for,
        )
        self._custody = Custody(self._presence, self.agenda, self._ledger, surroundings.journal)
        self.loop = TaskLoop(surroundings, self.identifier, self.agenda, self._custody)
        self._life: asyncio.Task[None] | None = None
        self._roll_call: asyncio.Task[None] | None = None

    async def take_in(self, accepted: Sequence[AcceptedTask]) -> Intake:
        """Bring store and agenda in line with the registrations; on failure neither has changed."""
        async with self.loop.turn:
            try:
                if self._life is None:
                    await self._appear()
                intake = await self._carry_out(accepted)
            except (ScheduleTaskError, TaskListMismatchError):
                raise
            except Exception as error:
                raise SchedulerInitializationError(error) from error
            self._populate(intake, self._surroundings.clock.now())
        self.loop.wake()
        return intake

    @property
    def is_polling(self) -> bool:
        return self._life is not None and bool(self.agenda.tasks)

    def start(self) -> None:
        """Begin to look for due tasks."""
        self._life = asyncio.create_task(self.loop.run(), name="rota scheduler")
        self._presence.live_as(self._life)
        self._presence.on_departure(self._notice_departure)
        if self._presence.has_peers_elsewhere:
            self._roll_call = asyncio.create_task(self._call_the_roll(), name="rota roll call")

    async def finish(self) -> None:
        """Start nothing more, wait for what runs, write it down, say goodbye."""
        try:
            if self._life is not None:
                self.loop.request_stop()
                await self._life
        finally:
            await self.vanish()

    async def vanish(self) -> None:
        """Leave no trace of this instance; a store that fails now will find out by itself."""
        if self._roll_call is not None:
            self._roll_call.cancel()
            await asyncio.wait({self._roll_call})  # its last announcement must not come afterwards
        with suppress(Exception):
            await self._presence.withdraw()

    async def _appear(self) -> None:
        life = asyncio.current_task()
        if life is not None:
            self._presence.live_as(life)
        await self._presence.announce()

    async def _carry_out(self, accepted: Sequence[AcceptedTask]) -> Intake:
        if self._life is not None:
            await self._custody.catch_up()
        living = await self._presence.find_living()
        self._custody.see_living(living)
        moment = Moment(self._surroundings.clock.now(), self.identifier, living)
        by_name = {task.name: task for task in accepted}
        return await carry_out(
            self._ledger, by_name, self._surroundings.policy, moment, self._presence.find_living
        )

    def _populate(self, intake: Intake, now: datetime) -> None:
        held = self.loop.runs.held_tasks()
        for name in [name for name in self.agenda.tasks if name not in intake.tasks]:
            self.agenda.remove(name)
        for decided in intake.tasks.values():
            task = self.agenda.tasks.get(decided.accepted.name)
            if task is None:
                made = self._make_task(decided, now)
                self.agenda.add(_take_place(made, held.get(decided.accepted.name)))
            else:
                self._update(task, decided, now)

    def _make_task(self, decided: Decided, now: datetime) -> Task:
        schedule = self.agenda.schedule_for(decided.accepted.cron, now)
        task = Task(
            decided.reconciled.state, decided.version_after, decided.accepted.callback, schedule
        )
        task.is_interrupted = self._is_interrupted(decided)
        return task

    def _is_interrupted(self, decided: Decided) -> bool:
        """Its runner is dead, or this instance claimed it in a write whose reply was lost."""
        state = decided.reconciled.state
        is_claimed_here = state.running and state.scheduler_identifier == self.identifier
        return decided.reconciled.is_interrupted or is_claimed_here

    def _update(self, task: Task, decided: Decided, now: datetime) -> None:
        """A task that is known already: what it is doing goes on, on its new terms."""
        accepted = decided.accepted
        task.callback = accepted.callback
        task.version = decided.version_after
        if task.is_held or accepted.name in self._custody.unsaved:
            task.state = reconfigure(task.state, accepted.cron.text, accepted.retry_delay_ms)
        else:
            task.state = decided.reconciled.state
            task.is_interrupted = self._is_interrupted(decided)
        if task.schedule.cron.text != accepted.cron.text:
            self.agenda.move(task, self.agenda.schedule_for(accepted.cron, now))
        self.agenda.reconsider(task)

    def _notice_departure(self) -> None:
        self._custody.call_census()
        self.loop.wake()

    async def _call_the_roll(self) -> None:
        """Again and again: say that this instance is alive, and see who else is."""
        clock, settings = self._surroundings.clock, self._surroundings.settings
        while True:
            await clock.sleep(settings.peers_checked_every)
            try:
                await self._see_peers()
            except StoreError:
                pass  # the loop meets the same store and reports it
            except Exception:
                logger.exception("The roll could not be called; it is tried again")

    async def _see_peers(self) -> None:
        self._custody.see_living(await self._presence.find_living())
        await self._presence.keep_alive()
        await self._presence.bury_the_dead()
        self._heed(await self._ledger.take_requests())
        self.loop.wake()

    def _heed(self, requested: Sequence[str]) -> None:
        for name in requested:
            task = self.agenda.tasks.get(name)
            if task is not None:
                task.is_requested = True
                self.agenda.reconsider(task)


def _take_place(task: Task, leaver: Task | None) -> Task:
    """A task removed while it ran, and back before that run has ended, waits for its end."""
    if leaver is None:
        return task
    leaver.become(task)
    return leaver
