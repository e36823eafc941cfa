"""Declare tasks, and they run: initialize(registrations) and stop().

The specifications give a scheduler exactly these two actions. ``plan`` and ``why`` only read.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from datetime import datetime, tzinfo
from enum import Enum

from rota.clock.host_zone import read_host_zone
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.errors import (
    InvalidInputError,
    SchedulerAlreadyActiveError,
    StopSchedulerError,
    describe_error,
)
from rota.events import (
    EventEmitter,
    PollingStarted,
    PollingStopped,
    PollingStopRequested,
    SchedulerInitializationCompleted,
    SchedulerInitializationFailed,
    SchedulerInitializationStarted,
    SchedulerReinitializationStarted,
    SchedulerStopped,
    SchedulerStopRequested,
)
from rota.scheduler.policy import DECLARATIVE, SchedulerContext, SchedulerPolicy, SchedulerSettings
from rota.scheduler.queries import Explanation, Plan, explain_task, make_plan
from rota.scheduler.reconciliation import Reconciliation, emit_reconciliation
from rota.scheduler.registration import (
    AcceptedTask,
    Registration,
    accept_registrations,
    count_registrations,
)
from rota.scheduler.session import Session
from rota.stores.protocol import DocumentStore

logger = logging.getLogger("rota.scheduler")


class SchedulerState(Enum):
    """A scheduler is in exactly one of these. A stopped one may be initialized again."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    RUNNING = "running"
    REINITIALIZING = "reinitializing"
    STOPPING = "stopping"
    STOPPED = "stopped"


class PollingState(Enum):
    """Whether the scheduler looks for due tasks."""

    INACTIVE = "inactive"
    ACTIVE = "active"
    STOPPING = "stopping"


class Scheduler:
    """Runs registered tasks by their cron expressions and stores their state.

    Several schedulers, in one process or many, may share a store: each occurrence runs once.
    ``zone`` is the time zone of the expressions, by default the host's.
    """

    def __init__(
        self,
        store: DocumentStore,
        *,
        clock: Clock | None = None,
        zone: tzinfo | None = None,
        policy: SchedulerPolicy = DECLARATIVE,
        settings: SchedulerSettings | None = None,
    ) -> None:
        self.events = EventEmitter("rota.scheduler")
        self._context = SchedulerContext(
            store=store,
            clock=clock if clock is not None else SystemClock(),
            zone=zone if zone is not None else read_host_zone(),
            policy=policy,
            settings=settings if settings is not None else SchedulerSettings(),
            events=self.events,
        )
        self._state = SchedulerState.UNINITIALIZED
        self._session: Session | None = None
        self._initializing: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def state(self) -> SchedulerState:
        return self._state

    @property
    def polling_state(self) -> PollingState:
        if self._session is None or not self._session.is_polling:
            return PollingState.INACTIVE
        if self._state in {SchedulerState.RUNNING, SchedulerState.REINITIALIZING}:
            return PollingState.ACTIVE
        return PollingState.STOPPING

    def initialize(self, registrations: Sequence[Registration]) -> Awaitable[None]:
        """Reconcile the store with the registrations and run them from now on.

        Bad input raises at the call itself, before anything is awaited or written. Awaiting the
        result waits until the tasks are stored and scheduled. On failure the store is unchanged
        and nothing runs.
        """
        self._refuse_when_active()
        is_again = self._state is SchedulerState.RUNNING
        accepted = self._accept(registrations, is_again=is_again)
        loop = asyncio.get_running_loop()
        if is_again:
            self._state = SchedulerState.REINITIALIZING
            work = self._reinitialize(accepted)
        else:
            self._state = SchedulerState.INITIALIZING
            work = self._initialize(accepted)
        self._initializing = loop.create_task(work, name="rota initialize")
        return self._initializing

    async def stop(self) -> None:
        """Start nothing more, and return when every running callback has ended.

        Waits for an ``initialize()`` in progress. On a scheduler that does not run, it does
        nothing.
        """
        self._refuse_from_inside()
        if self._stopping is None:
            if self._state in {SchedulerState.UNINITIALIZED, SchedulerState.STOPPED}:
                return
            self._stopping = self._begin_stop()
        await asyncio.shield(self._stopping)

    async def plan(self, registrations: Sequence[Registration]) -> Plan:
        """What ``initialize`` would do now, without doing it."""
        accepted = accept_registrations(registrations, self._context.policy.dialect)
        return await make_plan(self._context, accepted)

    async def why(self, name: str, at: datetime | None = None) -> Explanation:
        """Why the task ran, did not run, or will run at that instant; by default, now and next."""
        return await explain_task(self._context, name, at)

    def _refuse_when_active(self) -> None:
        if self._state in {SchedulerState.INITIALIZING, SchedulerState.REINITIALIZING}:
            raise SchedulerAlreadyActiveError("initializing")
        is_refused = self._context.policy.reinitialize == "refuse"
        # A stop may still be in progress although the initialize() it waited for has failed.
        if self._stopping is not None or (self._state is SchedulerState.RUNNING and is_refused):
            raise SchedulerAlreadyActiveError("running")

    def _accept(self, registrations: object, *, is_again: bool) -> list[AcceptedTask]:
        total = count_registrations(registrations)
        if is_again:
            self.events.emit(SchedulerReinitializationStarted(total_registrations=total))
        else:
            self.events.emit(SchedulerInitializationStarted(total_registrations=total))
        try:
            return accept_registrations(registrations, self._context.policy.dialect)
        except InvalidInputError as error:
            self.events.emit(SchedulerInitializationFailed(error=describe_error(error)))
            raise

    async def _initialize(self, accepted: list[AcceptedTask]) -> None:
        session = Session(self._context)
        try:
            decided = await session.register(accepted)
        except BaseException as error:
            self._state = SchedulerState.UNINITIALIZED
            self.events.emit(SchedulerInitializationFailed(error=describe_error(error)))
            await session.leave()
            raise
        self._session = session
        is_stopping = self._emit_decided(session, decided)
        if not is_stopping:
            self._state = SchedulerState.RUNNING
            session.start()
        self._complete(len(accepted), is_stopping=is_stopping)
        if accepted and not is_stopping:
            self.events.emit(PollingStarted())

    async def _reinitialize(self, accepted: list[AcceptedTask]) -> None:
        session = self._session
        if session is None:  # the state says that there is one
            raise AssertionError("a running scheduler has a session")
        was_polling = session.is_polling
        try:
            decided = await session.register(accepted)
        except BaseException as error:
            self.events.emit(SchedulerInitializationFailed(error=describe_error(error)))
            if self._stopping is None:
                self._stopping = self._begin_stop()
                self._stopping.add_done_callback(_log_failure)
            raise
        is_stopping = self._emit_decided(session, decided)
        if not is_stopping:
            self._state = SchedulerState.RUNNING
        self._complete(len(accepted), is_stopping=is_stopping)
        if was_polling != bool(accepted):
            self.events.emit(PollingStopped() if was_polling else PollingStarted())

    def _emit_decided(self, session: Session, decided: Reconciliation) -> bool:
        """Emit the events of every task; returns whether a stop came meanwhile."""
        is_stopping = self._stopping is not None
        emit_reconciliation(self._context, decided, session.identifier, is_stopping=is_stopping)
        return is_stopping

    def _complete(self, total: int, *, is_stopping: bool) -> None:
        skipped_count = total if is_stopping else 0
        self.events.emit(
            SchedulerInitializationCompleted(
                total_registrations=total,
                scheduled_count=total - skipped_count,
                skipped_count=skipped_count,
            )
        )

    def _refuse_from_inside(self) -> None:
        current = asyncio.current_task()
        if self._session is not None and self._session.loop.runs.contains(current):
            name = current.get_name() if current is not None else ""
            raise StopSchedulerError(
                RuntimeError(f"it was called from inside {name!r}, for which it would wait")
            )

    def _begin_stop(self) -> asyncio.Task[None]:
        """Nothing starts from now on; the returned task does the rest of the stop."""
        self.events.emit(SchedulerStopRequested())
        if self._state is SchedulerState.RUNNING:
            self._state = SchedulerState.STOPPING
        if self._session is not None:
            self._session.loop.request_stop()
        return asyncio.create_task(self._stop(), name="rota stop")

    async def _stop(self) -> None:
        try:
            if self._initializing is not None:
                await asyncio.wait({self._initializing})
            if self._session is not None:
                await self._end(self._session)
        finally:
            self._session = None
            self._stopping = None
            self._state = SchedulerState.STOPPED
            self.events.emit(SchedulerStopped())

    async def _end(self, session: Session) -> None:
        self._state = SchedulerState.STOPPING
        if session.is_polling:
            self.events.emit(PollingStopRequested())
        try:
            await session.finish()
        finally:
            if session.is_polling:  # otherwise it stopped when the last task went
                self.events.emit(PollingStopped())


def _log_failure(stopping: asyncio.Task[None]) -> None:
    """Log the failure of a stop that no caller awaits."""
    if not stopping.cancelled() and (error := stopping.exception()) is not None:
        logger.error("%s", describe_error(error))
