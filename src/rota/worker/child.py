"""The child process of a worker: calls functions by name, one at a time, until its input ends.

The worker starts it with ``python -m rota.worker.child``. Its standard input and output carry
messages. What the functions themselves read is empty, and what they print goes to standard error.
It leaves SIGINT and SIGTERM to the worker, which lets jobs end before it stops.
"""

import logging
import os
import signal
import sys
import traceback
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from types import ModuleType, TracebackType
from typing import Any, BinaryIO

import msgspec

from rota.clock.system import SystemClock
from rota.errors import describe_error
from rota.jobs import Job, JobId
from rota.worker.attempts import LogCapture, current_capture, log_captured
from rota.worker.child_messages import (
    Begin,
    Call,
    Logged,
    Raised,
    Reported,
    Returned,
    Target,
    ToWorker,
    decode_to_child,
    frame,
    read_frame,
)
from rota.worker.context import Context, Discard, Facilities, Snooze
from rota.worker.progress import make_progress

MAIN_IN_CHILD = "__rota_main__"
"""The name of the program's main module in a child: what it guards by its name does not run."""

ORPHANED = 70
"""The exit status of a child whose worker is gone."""

_ROTA = Path(__file__).parents[1]
_LARGEST_TRACEBACK = 1 << 20


class Channel:
    """The messages of this child. Any thread may send."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self.requests = requests
        self._answers = answers
        self._lock = Lock()

    @classmethod
    def take_over(cls) -> "Channel":
        """Keep standard input and output for messages, and give the functions others."""
        requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        return cls(requests, answers)

    def send(self, message: ToWorker) -> None:
        body = memoryview(frame(message))
        with self._lock:
            while body:
                body = body[self._answers.write(body) :]


class RelayedLog(LogCapture, eq=False, kw_only=True):
    """Sends each line to the worker at once: a child that dies has not lost them."""

    _channel: Channel

    def add_text(self, text: str) -> None:
        self._channel.send(Logged(text))


class RelayedProgress:
    """Sends reports of progress to the worker."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def report(self, job: Job, done: float, total: float | None, message: str | None) -> None:
        report = make_progress(job, done, total, message, SystemClock().now())
        self._channel.send(Reported(report.done, report.total, report.message))

    def end(self, job_id: JobId) -> None:
        """The worker removes what it shows."""

    async def close(self) -> None:
        """There is nothing to close."""


class Child:
    """Carries out one call at a time."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls: SimpleQueue[tuple[Call, Context] | None] = SimpleQueue()
        self._context: Context | None = None
        self._facilities = Facilities(partial(RelayedProgress, channel))

    def serve(self) -> None:
        """Carry out calls until the input ends."""
        Thread(target=self._listen, name="rota-child", daemon=True).start()
        with log_captured(), suppress(BrokenPipeError):  # the worker is gone
            while (received := self._calls.get()) is not None:
                answer = self._carry_out(*received)
                self._context = None  # before the worker sends the next call
                self._channel.send(answer)

    def _listen(self) -> None:
        """Note cancellations while a function runs, and the end of the worker."""
        while (body := read_frame(self._channel.requests)) is not None:
            message = decode_to_child.decode(body)
            if isinstance(message, Begin):
                sys.path[:] = message.path
            elif isinstance(message, Call):
                self._context = Context(message.job, message.now, self._facilities)
                self._calls.put((message, self._context))
            elif self._context is not None:
                self._context.cancel_reason = message.reason
        if self._context is not None:
            os._exit(ORPHANED)  # the job belongs to another worker soon
        self._calls.put(None)

    def _carry_out(self, call: Call, context: Context) -> Returned | Raised:
        log = RelayedLog(SystemClock(), _channel=self._channel) if call.captures_logs else None
        current_capture.set(log)
        try:
            return _answer(run(call.target, context))
        except BaseException as error:  # noqa: BLE001 - the worker decides about it
            return _describe(error)


def run(target: Target, context: Context) -> Any:
    """Call the target."""
    found = find(target)
    if target.runner is None:
        return found(context)
    module, _, name = target.runner.partition(":")
    return getattr(import_module(module), name)(found, context)


def find(target: Target) -> Any:
    """The function, or what decorates it."""
    found: Any = _import_main(target.file) if target.file else import_module(target.module)
    for name in target.name.split("."):
        found = getattr(found, name)
    return found


def _import_main(file: str) -> ModuleType:
    """The main module of the worker's program, imported under another name."""
    if MAIN_IN_CHILD not in sys.modules:
        spec = spec_from_file_location(MAIN_IN_CHILD, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} cannot be imported")
        module = sys.modules[MAIN_IN_CHILD] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[MAIN_IN_CHILD]


def _answer(returned: object) -> Returned:
    if isinstance(returned, Snooze):
        return Returned(snooze=returned.delay.total_seconds())
    if isinstance(returned, Discard):
        return Returned(discard=returned.reason)
    if isinstance(returned, bytes):
        return Returned(has_result=True, result=msgspec.Raw(returned))
    return Returned()


def _describe(error: BaseException) -> Raised:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and _is_own(trace):
        trace = trace.tb_next
    error.__traceback__ = trace
    text = "".join(traceback.format_exception(error))
    kind = type(error).__name__
    message = describe_error(error).removeprefix(kind).removeprefix(": ")
    return Raised(kind, message, text[-_LARGEST_TRACEBACK:])


def _is_own(trace: TracebackType) -> bool:
    """Whether the frame is one of Rota's, which say nothing about the function."""
    return Path(trace.tb_frame.f_code.co_filename).is_relative_to(_ROTA)


def main() -> None:
    """Serve the worker that started this process."""
    channel = Channel.take_over()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # unlike SIG_IGN, programs it starts get signals
    Child(channel).serve()
    logging.shutdown()


if __name__ == "__main__":
    main()
