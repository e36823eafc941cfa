"""What became of an attempt: records that say what happened, and decide nothing."""

from datetime import timedelta
from typing import TypeAlias

import msgspec


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The handler returned."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The handler raised, ran too long, or there was none."""

    error: str


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """The handler asked to be called again after a while."""

    for_: timedelta


class Discarded(msgspec.Struct, frozen=True, gc=False):
    """The handler said that no attempt would ever succeed."""

    reason: str


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """Somebody called the job off while it ran."""

    reason: str


class Lost(msgspec.Struct, frozen=True, gc=False):
    """The lease ran out: nobody knows what the worker has done."""


class Interrupted(msgspec.Struct, frozen=True, gc=False):
    """The worker shut down; the job is not to blame."""


Outcome: TypeAlias = Succeeded | Failed | Snoozed | Discarded | Cancelled | Lost | Interrupted
