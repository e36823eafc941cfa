"""What an operator may tune about a worker."""

from collections.abc import Collection
from datetime import timedelta

import msgspec

from rota.errors import InvalidInputError
from rota.policy.gates import Gate
from rota.policy.limit_watch import LimitWatch

_NO_TIME = timedelta(0)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Eight options, the gate that jobs pass before their handlers, and the limits on leases.

    - ``batch``: at most so many jobs are leased at once. ``concurrency``: so many run at once.
    - ``lease_for``: how long a job is held without a sign of life; when its worker dies, it is
      rescued that long after, and a quarter of that at most. Heartbeats let jobs run any longer.
    - ``poll_for``: how long a worker that hears of nothing waits until it looks by itself.
    - ``queues``, ``tenants``: whose jobs are taken; left out, everybody's.
    - ``grace_for``: how long jobs that run may go on when the worker is to stop.
    - ``retention``: jobs that ended longer ago are removed; left out, they are kept.
    """

    batch: int = 10
    concurrency: int = 10
    lease_for: timedelta = timedelta(seconds=60)
    poll_for: timedelta = timedelta(seconds=1)
    queues: Collection[str] | None = None
    tenants: Collection[str] | None = None
    grace_for: timedelta = timedelta(seconds=25)
    retention: timedelta | None = None
    gate: Gate | None = None
    limits: LimitWatch | None = None

    def __post_init__(self) -> None:
        for field in ("batch", "concurrency"):
            _check_count(field, getattr(self, field))
        for field in ("lease_for", "poll_for"):
            _check_duration(field, getattr(self, field))
        _check_duration("grace_for", self.grace_for, may_be_zero=True)
        if self.retention is not None:
            _check_duration("retention", self.retention, may_be_zero=True)
        for field in ("queues", "tenants"):
            _check_names(field, getattr(self, field))
        if self.gate is not None and not callable(getattr(self.gate, "judge", None)):
            raise _refusal("gate", f"must have a method judge, got {self.gate!r:.40}")
        if self.limits is not None and not isinstance(self.limits, LimitWatch):
            raise _refusal("limits", f"must be a LimitWatch, got {self.limits!r:.40}")


def _check_count(field: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise _refusal(field, f"must be an integer from 1 on, got {value!r:.40}")


def _check_duration(field: str, value: object, *, may_be_zero: bool = False) -> None:
    if not isinstance(value, timedelta):
        raise _refusal(field, f"must be a timedelta, got {value!r:.40}")
    if value < _NO_TIME or (value == _NO_TIME and not may_be_zero):
        least = "no less than no time" if may_be_zero else "longer than no time"
        raise _refusal(field, f"must be {least}, got {value}")


def _check_names(field: str, names: object) -> None:
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Collection):
        raise _refusal(field, f"must be a collection of names, got {names!r:.40}")
    if not names or not all(isinstance(name, str) and name for name in names):
        raise _refusal(field, "must hold names, at least one, and nothing else")


def _refusal(field: str, reason: str) -> InvalidInputError:
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})
