"""What a trace is made of: the actions of a scheduler and its caller, and marks of the observer.

An *action* is something the theory of the scheduler speaks about: a call, a return, a run, a crash.
A *mark* is what the judge must know besides to be fair: time that did not flow, a store that
failed. Each record is frozen, carries its instant, and becomes one line of JSON and back, so that
processes can write down what they did and another can judge it.

With several instances on one store each record names its ``instance``; a history of one scheduler
after another, restarted or crashed, needs no names.
"""

from datetime import datetime, timedelta

import msgspec


class TaskFacts(msgspec.Struct, frozen=True, tag="task"):
    """A registration as the judge sees it: everything but the callback."""

    name: str
    expression: str
    retry_delay: timedelta


class Misshapen(msgspec.Struct, frozen=True, tag="misshapen"):
    """An element that is not a registration, and what it looked like."""

    received: str


Registrations = tuple[TaskFacts | Misshapen, ...] | None
"""The list given to ``initialize``; None when it was no list."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at ``at``, by the clock of the instance it happened to."""

    at: datetime
    instance: str = ""


class InitializeCalled(Record, frozen=True, tag="initialize called"):
    call: int
    registrations: Registrations


class InitializeReturned(Record, frozen=True, tag="initialize returned"):
    call: int


class InitializeFailed(Record, frozen=True, tag="initialize failed"):
    """``error`` is the name of the exception's class."""

    call: int
    error: str


class StopCalled(Record, frozen=True, tag="stop called"):
    call: int


class StopReturned(Record, frozen=True, tag="stop returned"):
    call: int


class StopFailed(Record, frozen=True, tag="stop failed"):
    """Stop ended, but with an error. Only a failing store excuses it."""

    call: int
    error: str


class RunStarted(Record, frozen=True, tag="run started"):
    """The callback was invoked."""

    name: str


class RunSucceeded(Record, frozen=True, tag="run succeeded"):
    name: str


class RunFailed(Record, frozen=True, tag="run failed"):
    name: str
    error: str = ""


class Crashed(Record, frozen=True, tag="crashed"):
    """The instance died here: it did nothing afterwards, and nothing in it ended."""


class ClockJumped(Record, frozen=True, tag="clock jumped"):
    """A mark: the clock showed ``at`` and then, at once, ``to``.

    Later means that the host slept: the time in between did not pass, so nothing is late for it.
    Earlier means that the clock was set back.
    """

    to: datetime


class StorageFault(Record, frozen=True, tag="storage fault"):
    """A mark: the store failed, or took ``lasted`` to answer; what it delays is not late."""

    operation: str = ""
    failed: bool = True
    lasted: timedelta = timedelta()


class LeftRunning(Record, frozen=True, tag="left running"):
    """A mark: where an instance ended, the store held these tasks as running.

    If no run of theirs was cut off, the result of their last run, or the claim of their next, was
    on its way. The next instance cannot tell the difference, so it may start them again.
    """

    names: tuple[str, ...]


class Observed(Record, frozen=True, tag="observed"):
    """A mark: nothing happened, but the observer was still watching."""


Action = (
    InitializeCalled
    | InitializeReturned
    | InitializeFailed
    | StopCalled
    | StopReturned
    | StopFailed
    | RunStarted
    | RunSucceeded
    | RunFailed
    | Crashed
)
Mark = ClockJumped | StorageFault | LeftRunning | Observed
Entry = Action | Mark
"""One record of a trace."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def to_json_line(entry: Entry) -> bytes:
    """One line, without its line break."""
    return _encoder.encode(entry)


def from_json_line(line: bytes | str) -> Entry:
    """The record that ``to_json_line`` wrote; ``msgspec.DecodeError`` when it did not."""
    return _decoder.decode(line)
