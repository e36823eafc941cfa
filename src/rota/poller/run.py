"""One run of a poller, from its start to its stop: the loop, and one turn of it."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from rota.clock.timeout import timeout_after
from rota.errors import ConflictError, InvalidInputError, LockLostError
from rota.poller.advance import next_start
from rota.poller.hooks import Hooks, carry_out
from rota.poller.protocol import JobUpdate, PollableStore, PolledJob
from rota.poller.settings import PollerSettings
from rota.triggers.zone import load_zone

SHORTEST_IDLE = timedelta(milliseconds=100)
"""How long a poller without an ``idle_delay`` waits: to others the store is worth something too."""

FIRST_PAUSE, LONGEST_PAUSE = timedelta(milliseconds=100), timedelta(seconds=10)
"""How long to wait after an error of the store; twice as long after each that follows."""

_NO_TIME = timedelta(0)


class Run:
    """Polls from ``launch`` until it is told to end. It can be used once."""

    def __init__(self, store: PollableStore, settings: PollerSettings) -> None:
        self.is_processing = False
        self.is_idle = False
        self._store = store
        self._settings = settings
        self._clock = settings.clock
        self._hooks = Hooks(settings)
        self._ending = asyncio.Event()
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pause_for = FIRST_PAUSE
        self._waiter_count = 0
        self._task: asyncio.Task[None] | None = None

    def launch(self) -> None:
        """Begin. Where tasks are eager ``on_start`` is called here, so others must know the run."""
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

    async def started(self, *, is_asked_for: bool) -> None:
        """Return when ``on_start`` has ended, or raise what it raised.

        When the one who asked for it is cancelled, the start is called off; also when it has just
        come about, for they will not hear of it.
        """
        try:
            await asyncio.shield(self._started)
        except asyncio.CancelledError:
            if self._started.cancelled() and not self._is_cancelled:
                raise ConflictError("The start of the poller was cancelled") from None
            if is_asked_for:
                await self._call_off()
            raise

    async def _call_off(self) -> None:
        if self._started.done():
            self.end()
        elif self._task is not None:
            self._task.cancel()
        await self.settled()

    def end(self) -> None:
        """Take no more documents. What is being processed is finished."""
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
            while not (self.is_ending or self._is_cancelled):
                await self._take_turn()
        finally:
            self._ending.set()
            self.is_idle = self.is_processing = False
            await self._say_goodbye()

    @property
    def _is_cancelled(self) -> bool:
        """Whether the current task is, even though a hook did not let the cancellation pass."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _begin(self) -> bool:
        """Whether there was a start; if not, whoever waits for it is told why."""
        try:
            await self._hooks.start()
        except Exception as error:  # noqa: BLE001 - whatever it is, start() raises it
            self._started.set_exception(error)
            return False
        except BaseException:
            self._started.cancel()
            raise
        self._started.set_result(None)
        return True

    async def _say_goodbye(self) -> None:
        try:
            await self._hooks.stop()
        except Exception as error:
            if self._waiter_count:
                raise
            await self._hooks.error(error)

    async def _take_turn(self) -> None:
        await self._wait(self._settings.next_delay)
        if self.is_ending:
            return
        now = self._clock.now()
        lock_until = self._settings.lock_until(now)
        try:
            job = await carry_out(partial(self._store.lock_next, lock_until, now))
        except Exception as error:  # noqa: BLE001 - the top of the loop, which must go on
            await self._be_patient(error)
            return
        self._pause_for = FIRST_PAUSE
        try:
            await (self._note_idleness() if job is None else self._process(job, lock_until))
        except Exception as error:  # noqa: BLE001 - the top of the loop, which must go on
            await self._hooks.error(error)
        if job is None:
            await self._wait(self._settings.idle_delay or SHORTEST_IDLE)

    async def _be_patient(self, error: Exception) -> None:
        await self._hooks.error(error)
        await self._wait(max(self._pause_for, self._settings.idle_delay))
        self._pause_for = min(self._pause_for * 2, LONGEST_PAUSE)

    async def _note_idleness(self) -> None:
        if not self.is_idle:
            self.is_idle = True
            await self._hooks.idle()

    async def _process(self, job: PolledJob, lock_until: datetime) -> None:
        """One that fails stays locked: when the lock has run out, it is tried again."""
        self.is_idle, self.is_processing = False, True
        try:
            await self._hooks.document(job)
            if not await self._reschedule(job) and self._clock.now() >= lock_until:
                raise LockLostError(job.id, lock_until)
        finally:
            self.is_processing = False

    async def _reschedule(self, job: PolledJob) -> bool:
        """Whether it could be: somebody may have taken, changed or removed the document."""
        now = self._clock.now()
        try:
            at = self._next_start(job, now)
        except InvalidInputError:
            # What cannot be understood does not recur; it is kept, so that it can be mended.
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
        """Wait so long, or until the run is to end."""
        if duration == _NO_TIME:
            await self._clock.sleep(duration)
            return
        with suppress(TimeoutError):
            async with timeout_after(self._clock, duration):
                await self._ending.wait()
