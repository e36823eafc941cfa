"""Runs handlers. The one place where what a handler raises becomes an outcome."""

import asyncio
import inspect
from asyncio import CancelledError, Future
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rota.clock.idle import in_flight
from rota.errors import describe_error
from rota.events import JobStarted
from rota.jobs import Discarded, Failed, Interrupted, Outcome, Snoozed, Succeeded
from rota.policy.gates import Closed
from rota.policy.once import Ledger
from rota.worker.context import CancelReason, Context, Discard, Snooze
from rota.worker.registry import Handler
from rota.worker.running.held import Held, Stage
from rota.worker.running.isolation import Isolated
from rota.worker.running.threads import Threads
from rota.worker.surroundings import Surroundings
from rota.worker.teller import Teller

NO_HANDLER = "NoHandler"
TIMED_OUT = "TimedOut"
DISCARDED = "Discarded"

_SUCCEEDED = Succeeded()
_NO_TIME = timedelta(0)

Cancel = Callable[[Held, CancelReason], None]


class Dispatch:
    """Takes jobs past the gate to their handlers. ``cancel`` is called when one takes too long."""

    def __init__(self, surroundings: Surroundings, cancel: Cancel) -> None:
        self.threads = Threads()
        self._clock = surroundings.clock
        self._gate = surroundings.settings.gate
        self._handlers = surroundings.handlers
        self._journal = surroundings.journal
        self._teller = Teller(surroundings.journal)
        self._cancel = cancel
        self._ledger = Ledger(surroundings.store, surroundings.clock)

    async def run(self, held: Held) -> Outcome | Closed:
        """What became of the attempt; Closed when the gate did not let the job pass."""
        outcome = await self._attempt(held)
        if held.is_interrupted:
            _forget_interruption()
        return outcome

    async def _attempt(self, held: Held) -> Outcome | Closed:
        job = held.job
        handler = self._handlers.find(job.kind)
        try:
            if self._gate is not None:
                notifies = handler.notifies if handler else self._handlers.notifies(job.kind)
                verdict = self._gate.judge(job, held.started_at, notifies=notifies)
                if isinstance(verdict, Closed):
                    return verdict
            if handler is None:
                held.error_code = NO_HANDLER
                return Failed(f"No handler for type={job.kind}")
            held.context = Context(job, held.started_at, self._ledger)
            if self._journal.wants(JobStarted):
                self._teller.tell_started(held)
            return interpret(await self._call(handler, held, held.context), held)
        except CancelledError as error:
            return _judge_cancellation(held, error)
        except (GeneratorExit, KeyboardInterrupt):
            raise  # these speak to the interpreter, not of the job
        except BaseException as error:  # noqa: BLE001 - whatever else it is, the job failed
            return _judge_error(held, error)

    async def _call(self, handler: Handler, held: Held, context: Context) -> Any:
        if handler.timeout is not None:
            return await self._call_in_time(handler, held, context)
        if handler.is_async:
            return await Isolated(handler.work(context))
        return await self._call_in_thread(handler, held, context)

    async def _call_in_time(self, handler: Handler, held: Held, context: Context) -> Any:
        alarm = asyncio.create_task(self._cancel_after(handler.timeout or _NO_TIME, held))
        try:
            return await self._call(handler._replace(timeout=None), held, context)
        finally:
            alarm.cancel()

    async def _cancel_after(self, allowed_for: timedelta, held: Held) -> None:
        await self._clock.sleep(allowed_for)
        held.cancel_detail = f"Timed out after {allowed_for.total_seconds():g} s"
        self._cancel(held, CancelReason.TIMED_OUT)

    async def _call_in_thread(self, handler: Handler, held: Held, context: Context) -> Any:
        """The thread's result. It cannot be interrupted: who is cut short waits for it to see it.

        The wait is given up by whoever counts the place as leaked.
        """
        future = self.threads.call(handler.work, context)
        with in_flight():
            while not future.done():
                await _wait_for_thread(future, held)
        result = future.result()
        return await result if inspect.isawaitable(result) else result


def interpret(returned: object, held: Held) -> Outcome:
    """What a handler's return value says. Anything but a Snooze or a Discard says nothing."""
    if returned is None:
        return _SUCCEEDED
    if isinstance(returned, Snooze):
        return Snoozed(returned.for_)
    if isinstance(returned, Discard):
        held.error_code = DISCARDED
        return Discarded(returned.reason)
    return _SUCCEEDED


def judge_interruption(held: Held) -> Outcome:
    """What it means for a job that its attempt was cut short, whatever its handler made of it."""
    if held.cancel_reason is not CancelReason.TIMED_OUT:
        return Interrupted()
    held.error_code = TIMED_OUT
    return Failed(held.cancel_detail)


async def _wait_for_thread(future: "Future[Any]", held: Held) -> None:
    try:
        await asyncio.wait({future})
    except CancelledError:
        if not held.is_interrupted or held.stage is not Stage.RUNNING:
            raise


def _judge_cancellation(held: Held, error: CancelledError) -> Outcome:
    task = asyncio.current_task()
    if held.is_interrupted or task is None or not task.cancelling():
        return _judge_error(held, error)
    if held.runner is not None:  # the loop is being shut down: the runner is to end, not the job
        held.runner.is_dismissed = True
    return Interrupted()


def _judge_error(held: Held, error: BaseException) -> Outcome:
    held.error_code = type(error).__name__
    return Failed(describe_error(error))


def _forget_interruption() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
