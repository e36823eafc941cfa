"""The poller: start, stop, and its loop."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Self, Unpack

from rota.clock.system import timeout_after
from rota.errors import ConflictError, InvalidInputError, LockLostError
from rota.events import EventEmitter
from rota.fleet.outage import Outage, StoreRetry
from rota.poller.advance import next_start
from rota.poller.jobs import PolledJobs
from rota.poller.protocol import JobUpdate, PollableStore, PolledJob
from rota.poller.report import Report
from rota.poller.settings import Hooks, PollerOptions, PollerSettings, carry_out
from rota.stores.protocol import DocumentStore
from rota.triggers.zone import load_zone

SHORTEST_IDLE = timedelta(milliseconds=100)
"""The wait of a poller without ``idle_delay``, which leaves the store to others for a moment."""

FIRST_PAUSE = timedelta(milliseconds=100)
"""After an error of the store; the next pauses are longer, up to ten seconds."""

_NO_TIME = timedelta(0)
_VERBS = ("lock_next", "update", "remove")


class Poller:
    """Processes documents one after the other, each when it is due.

    ``store`` is an opened store, whose jobs are those of ``PolledJobs(store)``, or any
    ``PollableStore``, such as a collection of MongoDB. Many pollers, in many processes, may share
    one; each document is processed by one of them at a time. Errors go to ``on_error``, and the
    poller continues.
    """

    def __init__(
        self, store: PollableStore | DocumentStore, **options: Unpack[PollerOptions]
    ) -> None:
        self.events = EventEmitter("rota.poller")
        self._settings = PollerSettings(**options)
        self._store = _read_store(store, self._settings)
        self._run: Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not been stopped."""
        return self._run is not None and not (self._run.is_over or self._run.is_ending)

    @property
    def is_processing(self) -> bool:
        """Whether it is processing a document."""
        return self._run is not None and self._run.is_processing

    @property
    def is_idle(self) -> bool:
        """Whether it found nothing to do when it last looked."""
        return self._run is not None and self._run.is_idle

    async def start(self) -> None:
        """Start, and return when ``on_start`` has ended. Raises what ``on_start`` raises.

        Starting a running poller does nothing. If it is stopping, the call waits and then starts
        it again, except in its own hooks, which get a ConflictError.
        """
        while self._run is not None and self._run.is_ending and not self._run.is_over:
            if self._run.is_inside:
                raise ConflictError("The poller is stopping; its own hooks cannot start it again")
            await self._run.settled()
        run = self._run
        is_new = run is None or run.is_over
        if run is None or is_new:
            self._run = run = Run(self._store, self._settings, self._make_report(), self.events)
            run.launch()
        if not run.is_inside:
            await run.started(is_owner=is_new)

    async def stop(self) -> None:
        """Take no more documents, and return when ``on_stop`` has ended.

        The current document is finished first. Cancelling the call stops the waiting, not the
        stop. Raises what ``on_stop`` raises. A hook that calls it does not wait: the stop follows
        when the hook has ended. Stopping a poller that does not run does nothing.
        """
        run = self._run
        if run is None or run.is_over:
            return
        run.end()
        if not run.is_inside:
            await run.ended()

    def _make_report(self) -> Report:
        store, settings = self._store, self._settings
        own = store.store if isinstance(store, PolledJobs) else None
        source = getattr(store, "label", type(store).__name__)
        return Report(settings.reports_to or own, str(source), settings.clock)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _read_store(store: object, settings: PollerSettings) -> PollableStore:
    if all(callable(getattr(store, verb, None)) for verb in _VERBS):
        return store  # type: ignore[return-value]  # it has the verbs
    if all(callable(getattr(store, verb, None)) for verb in ("scan", "read", "write_all")):
        return PolledJobs(store, clock=settings.clock)  # type: ignore[arg-type]  # likewise
    reason = f"must have the verbs {', '.join(_VERBS)}, or be opened by open_store"
    raise InvalidInputError(
        f"store {reason}, got {store!r:.40}", {"field": "store", "reason": reason}
    )


class Run:
    """One run of a poller, from ``launch`` until it ends. It is used once."""

    def __init__(
        self,
        store: PollableStore,
        settings: PollerSettings,
        report: Report,
        events: EventEmitter,
    ) -> None:
        self.is_processing = False
        self.is_idle = False
        self._store = store
        self._settings = settings
        self._hooks = Hooks(settings, report)
        self._ending = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._retry = StoreRetry(Outage(events), settings.clock, None, FIRST_PAUSE, self._ending)
        self._waiter_count = 0
        self._task: asyncio.Task[None] | None = None

    def launch(self) -> None:
        """Begin. With eager tasks ``on_start`` is called here, so the run must be known by now."""
        self._task = asyncio.create_task(self._live(), name="rota poller")

    @property
    def is_over(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    @property
    def is_inside(self) -> bool:
        """Whether the caller is a hook of this run, which cannot wait for its own end."""
        return self._hooks.are_calling

    async def started(self, *, is_owner: bool) -> None:
        """Return when ``on_start`` has ended, or raise what it raised.

        When the owner, which launched the run, is cancelled, the run is cancelled or ended,
        because its owner will not learn of the start.
        """
        try:
            await asyncio.shield(self._started)
        except asyncio.CancelledError:
            if self._started.cancelled() and not self._is_cancelled:
                raise ConflictError("The start of the poller was cancelled") from None
            if is_owner:
                await self._cancel_start()
            raise

    async def _cancel_start(self) -> None:
        if self._started.done():
            self.end()
        elif self._task is not None:
            self._task.cancel()
        await self.settled()

    def end(self) -> None:
        """Take no more documents. The current one is finished."""
        self._ending.set()

    async def settled(self) -> None:
        """Return when the run is over, however it ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def ended(self) -> None:
        """Return when the last hook has ended; raise what ``on_stop`` raised."""
        self._waiter_count += 1
        try:
            await self.settled()
        finally:
            self._waiter_count -= 1
        task = self._task
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _live(self) -> None:
        if not await self._begin():
            return
        try:
            async with self._hooks.report.published():
                while not (self.is_ending or self._is_cancelled):
                    await self._take_turn()
        finally:
            self._ending.set()
            self.is_idle = self.is_processing = False
            await self._call_on_stop()

    @property
    def _is_cancelled(self) -> bool:
        """Whether the current task is cancelled, even if a hook suppressed the cancellation."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _begin(self) -> bool:
        """Call ``on_start``. False when it failed; ``started`` then raises the reason."""
        try:
            await self._hooks.call(self._settings.on_start)
        except Exception as error:  # noqa: BLE001 - start() raises it
            self._started.set_exception(error)
            return False
        except BaseException:
            self._started.cancel()
            raise
        self._started.set_result(None)
        return True

    async def _call_on_stop(self) -> None:
        try:
            await self._hooks.call(self._settings.on_stop)
        except Exception as error:
            if self._waiter_count:
                raise
            await self._hooks.error(error)

    async def _take_turn(self) -> None:
        await self._wait(self._settings.next_delay)
        if self.is_ending:
            return
        now = self._settings.clock.now()
        lock_until = self._settings.lock_until(now)
        try:
            job = await carry_out(partial(self._store.lock_next, lock_until, now))
        except Exception as error:  # noqa: BLE001 - the top of the loop, which must continue
            await self._hooks.error(error)
            if not self.is_ending:
                await self._wait_after(error)
            return
        self._retry.note_answer()
        try:
            await (self._become_idle() if job is None else self._process(job, lock_until))
        except Exception as error:  # noqa: BLE001 - the top of the loop, which must continue
            await self._hooks.error(error)
        if job is None:
            await self._wait(self._settings.idle_delay or SHORTEST_IDLE)

    async def _wait_after(self, error: Exception) -> None:
        """Wait for the pause after an error of the store, or the idle delay if that is longer."""
        clock, idle_delay = self._settings.clock, self._settings.idle_delay
        failed_at = clock.now()
        await self._retry.wait(error)
        waited_for = max(clock.now() - failed_at, _NO_TIME)  # the clock may be set back
        await self._wait(max(idle_delay - waited_for, _NO_TIME))

    async def _become_idle(self) -> None:
        if not self.is_idle:
            self.is_idle = True
            await self._hooks.call(self._settings.on_idle)

    async def _process(self, job: PolledJob, lock_until: datetime) -> None:
        """Process one document. If that fails, it stays locked and is retried after the lock."""
        self.is_idle, self.is_processing = False, True
        try:
            with self._hooks.report.holding(job, lock_until):
                await self._hooks.call(self._settings.on_document, job)
                if not await self._reschedule(job) and self._settings.clock.now() >= lock_until:
                    raise LockLostError(job.id, lock_until)
        finally:
            self.is_processing = False

    async def _reschedule(self, job: PolledJob) -> bool:
        """Write the next start. False when the document was taken, changed or removed meanwhile."""
        now = self._settings.clock.now()
        try:
            at = self._next_start(job, now)
        except InvalidInputError:
            # An invalid interval does not recur. The document is kept, so that it can be fixed.
            await self._update(job, None, now)
            raise
        if at is None and job.auto_remove:
            return bool(await carry_out(partial(self._store.remove, job)))
        return await self._update(job, at, now)

    async def _update(self, job: PolledJob, at: datetime | None, now: datetime) -> bool:
        update = JobUpdate(sleep_until=at)
        return bool(await carry_out(partial(self._store.update, job, update, now)))

    def _next_start(self, job: PolledJob, now: datetime) -> datetime | None:
        zone = self._settings.zone if job.zone is None else load_zone(job.zone)
        delay = self._settings.reprocess_delay
        return next_start(job.interval, job.sleep_until, job.repeat_until, delay, now, zone)

    async def _wait(self, duration: timedelta) -> None:
        """Wait for ``duration``, or until the run is to end."""
        if duration == _NO_TIME:
            await self._settings.clock.sleep(duration)
            return
        with suppress(TimeoutError):
            async with timeout_after(self._settings.clock, duration):
                await self._ending.wait()
