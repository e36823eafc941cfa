"""Child processes for handlers that keep a processor busy, or that may crash.

A child runs one job at a time and is kept for the next. Whatever happens to it concerns one job: a
child that crashes fails its job, and one that goes on after its job was cut short is killed a
second later. Children live in real time, whatever the clock of their worker shows; virtual time
stands still while one works.
"""

import asyncio
import os
import signal
import sys
from asyncio import CancelledError, Task
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from rota.clock.loop import in_flight
from rota.errors import ChildCrashedError, ChildError
from rota.events import ChildEnded, ChildStarted, EventEmitter
from rota.worker.attempts import current_capture
from rota.worker.child_messages import (
    HEADER_SIZE,
    Begin,
    Call,
    Cancel,
    Raised,
    Reported,
    Returned,
    Target,
    ToChild,
    ToWorker,
    decode_to_worker,
    find_target,
    frame,
)
from rota.worker.context import CancelReason, Context, Discard, Snooze

KILLED_AFTER = 1.0
"""How many seconds a child may go on after its job was cut short."""

KILLED_AFTER_STOP = 0.5
"""The same when the worker stops and waits no longer."""

ENDED_AFTER = 2.0
"""How many seconds an idle child may take to end."""

End: TypeAlias = Literal["recycled", "stopped", "killed", "crashed"]


class ProcessCall:
    """A handler: calls a function in a child process, with the context of the job.

    ``runner`` is that of ``Target``.
    """

    def __init__(self, function: Callable[..., Any], runner: str | None = None) -> None:
        self.target = replace(find_target(function), runner=runner)

    async def __call__(self, context: Context) -> Any:
        return await context.call_in_process(self.target)


class Child:
    """One process, and how many jobs it was given."""

    def __init__(self, process: Process) -> None:
        self.job_count = 0
        self.is_ending = False
        self._process = process

    @classmethod
    async def start(cls) -> "Child":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "rota.worker.child",
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,  # what it starts itself is killed with it
        )
        child = cls(process)
        child.send(Begin(tuple(sys.path)))
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToChild) -> None:
        """Send without waiting; a child that is gone is noticed when it is read from."""
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(frame(message))

    async def call(self, call: Call, context: Context) -> Returned | Raised:
        """The answer to a call. ChildCrashedError if the process ends without one."""
        self.job_count += 1
        self.send(call)
        capture = current_capture.get()
        while True:
            message = await self._receive()
            if isinstance(message, Returned | Raised):
                return message
            if isinstance(message, Reported):
                context.progress(message.done, message.total, message.message)
            elif capture is not None:
                capture.add_text(message.text)

    async def _receive(self) -> ToWorker:
        output = self._process.stdout
        if output is None:
            raise ChildCrashedError("has no output")
        try:
            size = int.from_bytes(await output.readexactly(HEADER_SIZE), "big")
            message: ToWorker = decode_to_worker.decode(await output.readexactly(size))
        except (EOFError, ConnectionError):
            raise ChildCrashedError(await self._describe_end()) from None
        return message

    async def _describe_end(self) -> str:
        """How the process ended. One that only closed its output is killed."""
        if not await self.wait(KILLED_AFTER):
            self.kill()
            await self.wait(None)
            return "has closed its connection to the worker"
        status = self._process.returncode or 0
        if status >= 0:
            return f"ended with exit status {status} before the job did"
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
        return f"was killed by signal {-status}"

    def close(self) -> None:
        """Let the process end: it has no more jobs to wait for."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """Kill the process, and what it has started."""
        if self._process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    async def wait(self, seconds: float | None) -> bool:
        """Wait for the process to end; whether it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
        return self._process.returncode is not None


class Processes:
    """The child processes of one worker: at most ``limit``, each for ``jobs_per_child`` jobs."""

    def __init__(self, limit: int, jobs_per_child: int, events: EventEmitter) -> None:
        self.started_count = 0
        self.killed_count = 0
        self._limit = limit
        self._jobs_per_child = jobs_per_child
        self._events = events
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._endings: set[Task[None]] = set()

    @property
    def count(self) -> int:
        """How many child processes there are now."""
        return len(self._idle) + len(self._busy) + len(self._endings)

    async def call(self, target: Target, context: Context, payload: Any) -> Any:
        """Call the target in a child process; returns JSON as bytes, a Snooze, a Discard or None.

        A cancelled call gives the child a second to end it, and then kills the process.
        """
        job = replace(context.job, payload=payload)
        call = Call(target, job, context.now, captures_logs=current_capture.get() is not None)
        with in_flight():
            child = await self._take()
            answering = asyncio.create_task(child.call(call, context))
            try:
                await asyncio.wait({answering})
            except CancelledError:
                await asyncio.shield(self._interrupt(child, answering, context.cancel_reason))
                raise
            self._put_back(child, answering)
        return _read(answering.result())

    async def close(self) -> None:
        """End all children, and wait until they have ended."""
        while self._idle:
            self._end(self._idle.pop(), "stopped")
        for child in tuple(self._busy):
            self._end(child, "killed")
        with in_flight():
            while self._endings:
                await asyncio.wait(self._endings)

    async def _take(self) -> Child:
        while not self._idle and self.count >= self._limit and self._endings:
            await asyncio.wait(self._endings, return_when=asyncio.FIRST_COMPLETED)
        if self._idle:
            child = self._idle.pop()
        else:
            child = await Child.start()
            self.started_count += 1
            self._events.emit(ChildStarted(pid=child.pid))
        self._busy.add(child)
        return child

    def _put_back(self, child: Child, answering: "Task[Returned | Raised]") -> None:
        if answering.exception() is not None:
            self._end(child, "crashed")
        elif child.job_count >= self._jobs_per_child:
            self._end(child, "recycled")
        elif not child.is_ending:
            self._busy.discard(child)
            self._idle.append(child)

    def _interrupt(
        self, child: Child, answering: "Task[Returned | Raised]", reason: CancelReason | None
    ) -> "Task[None]":
        child.send(Cancel(reason or CancelReason.STOPPING))
        seconds = KILLED_AFTER
        if reason in (None, CancelReason.STOPPING):
            seconds = KILLED_AFTER_STOP

        async def interrupt() -> None:
            await asyncio.wait({answering}, timeout=seconds)
            if answering.done():
                self._put_back(child, answering)
            else:
                answering.cancel()
                self._end(child, "killed")

        return asyncio.create_task(interrupt())

    def _end(self, child: Child, how: End) -> None:
        """Let go of a child, once, and wait for its end in a task."""
        self._busy.discard(child)
        if child.is_ending:
            return
        child.is_ending = True
        if how in ("killed", "crashed"):
            child.kill()
        child.close()
        task = asyncio.create_task(self._await_end(child, how))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _await_end(self, child: Child, how: End) -> None:
        if not await child.wait(ENDED_AFTER):
            child.kill()
            await child.wait(None)
        self.killed_count += how == "killed"
        self._events.emit(ChildEnded(pid=child.pid, reason=how, job_count=child.job_count))


def _read(answer: Returned | Raised) -> Any:
    if isinstance(answer, Raised):
        raise ChildError.make(answer.kind, answer.text, answer.traceback)
    if answer.snooze is not None:
        return Snooze(timedelta(seconds=answer.snooze))
    if answer.discard is not None:
        return Discard(answer.discard)
    return bytes(answer.result) if answer.has_result else None
