"""What a worker and its child processes say to each other.

Each message is JSON with its length in front. Arguments and results are JSON too: nothing is
pickled. This module is imported by both sides.
"""

import inspect
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import msgspec

from rota.errors import TaskDeclarationError
from rota.jobs import Job
from rota.worker.context import CancelReason

HEADER_SIZE = 4

MAIN = "__main__"

_NO_RESULT = msgspec.Raw(b"null")


class Target(msgspec.Struct, frozen=True):
    """A function of a module, by name. ``file`` is set for the main module of a program.

    ``runner`` is ``module:function``: what calls the function, with it and the context. Without a
    runner the function is called with the context.
    """

    module: str
    name: str
    file: str | None = None
    runner: str | None = None


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first message to a child: where it imports modules from."""

    path: tuple[str, ...]


class Call(msgspec.Struct, frozen=True, tag=True):
    """Call the target for this job."""

    target: Target
    job: Job
    now: datetime
    captures_logs: bool


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """The attempt is cut short; the child is killed if it goes on."""

    reason: CancelReason


class Logged(msgspec.Struct, frozen=True, tag=True):
    """Lines of the attempt's log."""

    text: str


class Reported(msgspec.Struct, frozen=True, tag=True):
    """A report of progress."""

    done: float
    total: float | None
    message: str | None


class Returned(msgspec.Struct, frozen=True, tag=True):
    """The target returned. ``snooze`` is in seconds; ``result`` is JSON, if it has one."""

    has_result: bool = False
    result: msgspec.Raw = _NO_RESULT
    snooze: float | None = None
    discard: str | None = None


class Raised(msgspec.Struct, frozen=True, tag=True):
    """The target raised an exception of this type."""

    kind: str
    text: str
    traceback: str


ToChild: TypeAlias = Begin | Call | Cancel
ToWorker: TypeAlias = Logged | Reported | Returned | Raised

decode_to_child = msgspec.json.Decoder(ToChild)
decode_to_worker = msgspec.json.Decoder(ToWorker)


def frame(message: ToChild | ToWorker) -> bytes:
    """The bytes of a message."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(HEADER_SIZE, "big") + body


def read_frame(stream: BinaryIO) -> bytes | None:
    """The body of the next message, or None at the end of the stream."""
    header = stream.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        return None
    size = int.from_bytes(header, "big")
    body = stream.read(size)
    return body if len(body) == size else None


class _Main(NamedTuple):
    """The name under which the main module can be imported, or else its file."""

    name: str
    file: str | None


def find_target(function: Callable[..., Any]) -> Target:
    """How a child process finds the function. TaskDeclarationError names its line."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name or module is None:
        raise _refuse(function, 'it has no name, and run_in="process" calls functions by name')
    if "<" in name:
        what = "a lambda" if name.endswith("<lambda>") else "defined inside another function"
        raise _refuse(
            function,
            f'it is {what}, and run_in="process" calls functions of a module by name; move it to '
            "the top of its module",
        )
    if inspect.iscoroutinefunction(function):
        raise _refuse(function, 'run_in="process" is for plain functions, and this one is async')
    if module != MAIN:
        return Target(module, name)
    main = _find_main()
    if main.file is None and main.name == MAIN:
        raise _refuse(function, "it was typed in, and a child process cannot import it; use a file")
    return Target(main.name, name, main.file)


def _find_main() -> _Main:
    module = sys.modules[MAIN]
    spec = getattr(module, "__spec__", None)
    if spec is not None:  # python -m
        return _Main(spec.name, None)
    return _Main(MAIN, getattr(module, "__file__", None))


def _refuse(function: Callable[..., Any], reason: str) -> TaskDeclarationError:
    code = getattr(inspect.unwrap(function), "__code__", None)
    location = "an unknown line" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
    return TaskDeclarationError(getattr(function, "__qualname__", repr(function)), location, reason)
