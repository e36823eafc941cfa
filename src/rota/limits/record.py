"""What may be limited, and how."""

from datetime import timedelta

import msgspec

from rota.errors import InvalidInputError
from rota.jobs.validation.fields import read_queue, read_word

LONGEST_RATE = timedelta(days=366)
HIGHEST_COUNT = 1_000_000_000
_NO_TIME = timedelta(0)


class Rate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``count`` jobs in every ``per``; up to ``burst`` of them at once, when none came before.

    Left out, ``burst`` is ``count``. Over any time no more than ``burst`` and what that time allows
    for are started.
    """

    count: int
    per: timedelta
    burst: int | None = None

    def __post_init__(self) -> None:
        _check_count(self.count, "rate.count", 1)
        if self.burst is not None:
            _check_count(self.burst, "rate.burst", 1)
        _check_duration(self.per, "rate.per")
        if self.per > LONGEST_RATE:
            raise refuse("rate.per", f"must be at most {LONGEST_RATE.days} days, got {self.per}")

    @property
    def most(self) -> int:
        """So many at once."""
        return self.count if self.burst is None else self.burst


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a tenant, for a queue, or for a queue of a tenant; with neither, for all jobs.

    - ``running``: so many run at once, over all workers; with 0 they wait.
    - ``rate``: so many start in a time, over all workers.
    - ``ageing``, of a queue only: for each such time that a job has waited it counts as one
      priority higher.
    """

    tenant: str | None = None
    queue: str | None = None
    running: int | None = None
    rate: Rate | None = None
    ageing: timedelta | None = None

    def __post_init__(self) -> None:
        check_scope(self.tenant, self.queue)
        if self.running is not None:
            _check_count(self.running, "running", 0)
        if self.rate is not None and not isinstance(self.rate, Rate):
            raise refuse("rate", f"must be a Rate, got {self.rate!r:.40}")
        if self.ageing is not None:
            _check_duration(self.ageing, "ageing")
            if self.queue is None or self.tenant is not None:
                raise refuse("ageing", "holds for a whole queue: name a queue and no tenant")
        if self.running is None and self.rate is None and self.ageing is None:
            raise refuse("running", "is missing, and so are rate and ageing: nothing is limited")


def check_scope(tenant: object, queue: object) -> None:
    """Refuse what cannot be the name of a tenant or of a queue."""
    if tenant is not None:
        read_word(tenant, "tenant")
    if queue is not None:
        read_queue(queue)


def refuse(field: str, reason: str) -> InvalidInputError:
    """A refusal that names the field."""
    return InvalidInputError(f"{field} {reason}", {"field": field, "reason": reason})


def _check_count(value: object, field: str, least: int) -> None:
    if type(value) is not int or not least <= value <= HIGHEST_COUNT:
        raise refuse(
            field, f"must be an integer from {least} to {HIGHEST_COUNT}, got {value!r:.40}"
        )


def _check_duration(value: object, field: str) -> None:
    if not isinstance(value, timedelta) or value <= _NO_TIME:
        raise refuse(field, f"must be a timedelta longer than no time, got {value!r:.40}")
