"""Limits per tenant and queue: concurrency, rate (a token bucket), ageing and pauses."""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from rota.errors import InvalidInputError, invalid
from rota.jobs.fields import read_queue, read_word
from rota.jobs.record import Instant
from rota.policy.gate_settings import Damage

LONGEST_RATE = timedelta(days=366)
HIGHEST_COUNT = 1_000_000_000
_NO_TIME = timedelta(0)


class Rate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``count`` jobs per ``per``, up to ``burst`` at once after an idle time.

    ``burst`` defaults to ``count``. Over any period at most ``burst`` jobs plus the period's share
    start.
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
            raise invalid("rate.per", f"must be at most {LONGEST_RATE.days} days, got {self.per}")

    @property
    def most(self) -> int:
        """The burst size."""
        return self.count if self.burst is None else self.burst


class Pause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Since when a queue is paused, by whom and why."""

    at: Instant
    who: str = ""
    why: str = ""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The limit of a tenant, a queue, or a queue of a tenant; with neither, of all jobs.

    - ``running``: the maximum running at once, over all workers; with 0 jobs wait.
    - ``rate``: the maximum started per period, over all workers.
    - ``ageing``, for a queue only: each such period of waiting raises a job's priority by one.
    - ``paused``, for a queue only: nothing starts until it is resumed. The other limits stay.
    """

    tenant: str | None = None
    queue: str | None = None
    running: int | None = None
    rate: Rate | None = None
    ageing: timedelta | None = None
    paused: Pause | None = None

    def __post_init__(self) -> None:
        check_scope(self.tenant, self.queue)
        if self.running is not None:
            _check_count(self.running, "running", 0)
        if self.rate is not None and not isinstance(self.rate, Rate):
            raise invalid("rate", f"must be a Rate, got {self.rate!r:.40}")
        if self.ageing is not None:
            _check_duration(self.ageing, "ageing")
            if self.queue is None or self.tenant is not None:
                raise invalid("ageing", "holds for a whole queue: name a queue and no tenant")
        if self.paused is not None:
            if self.queue is None:
                raise invalid("queue", "is missing: only a queue can be paused")
        elif not self.is_limited:
            raise invalid("running", "is missing, and so are rate and ageing: nothing is limited")

    @property
    def is_limited(self) -> bool:
        """Whether anything is limited, apart from a pause."""
        return not (self.running is None and self.rate is None and self.ageing is None)

    @property
    def most_running(self) -> int | None:
        """The maximum running at once; 0 while the queue is paused."""
        return self.running if self.paused is None else 0


def check_scope(tenant: object, queue: object) -> None:
    """Refuse an invalid tenant or queue name."""
    if tenant is not None:
        read_word(tenant, "tenant")
    if queue is not None:
        read_queue(queue)


def _check_count(value: object, field: str, least: int) -> None:
    if type(value) is not int or not least <= value <= HIGHEST_COUNT:
        raise invalid(
            field, f"must be an integer from {least} to {HIGHEST_COUNT}, got {value!r:.40}"
        )


def _check_duration(value: object, field: str) -> None:
    if not isinstance(value, timedelta) or value <= _NO_TIME:
        raise invalid(field, f"must be a positive timedelta, got {value!r:.40}")


LIMITS = "limits"
"""The collection of the documents."""

LIMIT_CHANGES = "limit_changes"
"""The collection of the one document whose version grows with every limit change."""

BUCKETS = "limit_buckets"
"""The collection of the token buckets, under the same keys as the limits."""


class _Body(msgspec.Struct, frozen=True, omit_defaults=True):
    running: int | None = None
    rate: Rate | None = None
    ageing: timedelta | None = None
    paused: Pause | None = None


def key_of(tenant: str | None, queue: str | None) -> str:
    """The key of a limit on a tenant, a queue, a queue of a tenant, or everything."""
    if tenant is None:
        return "all" if queue is None else f"queue/{queue}"
    return f"tenant/{tenant}" if queue is None else f"tenant/{tenant}/queue/{queue}"


def encode_limit(limit: Limit) -> bytes:
    """The body of the document."""
    body = _Body(**{name: getattr(limit, name) for name in _Body.__struct_fields__})
    return msgspec.json.encode(body)


def decode_limit(key: str, body: bytes) -> Limit | Damage:
    """The limit that ``encode_limit`` wrote under ``key_of``, or what is wrong with it."""
    try:
        tenant, queue = _read_key(key.split("/"))
        read = msgspec.json.decode(body, type=_Body)
        return Limit(tenant=tenant, queue=queue, **msgspec.structs.asdict(read))
    except (msgspec.DecodeError, InvalidInputError, UnicodeDecodeError) as error:
        return Damage(key, str(error))


def _read_key(key: list[str]) -> tuple[str | None, str | None]:
    match key:
        case ["all"]:
            return None, None
        case ["queue", queue]:
            return None, queue
        case ["tenant", tenant]:
            return tenant, None
        case ["tenant", tenant, "queue", queue]:
            return tenant, queue
        case _:
            raise invalid("key", "does not name a limit")


_MICROSECOND = timedelta(microseconds=1)


class Bucket(msgspec.Struct, frozen=True):
    """The credit of a bucket at an instant. A missing bucket is full."""

    credit: int
    at: Instant


class Taken(NamedTuple):
    """How many of the wanted tokens were available, and the bucket without them."""

    token_count: int
    bucket: Bucket


def take_tokens(rate: Rate, bucket: Bucket | None, wanted: int, now: datetime) -> Taken:
    """Take as many of the wanted tokens as are available."""
    filled = _fill(rate, bucket, now)
    count = min(max(wanted, 0), filled.credit // _price(rate))
    return Taken(count, Bucket(filled.credit - count * _price(rate), filled.at))


def give_back_tokens(rate: Rate, bucket: Bucket | None, count: int, now: datetime) -> Bucket:
    """Return unused tokens. Tokens beyond the burst are lost."""
    filled = _fill(rate, bucket, now)
    return Bucket(min(filled.credit + count * _price(rate), _most(rate)), filled.at)


def next_token_at(rate: Rate, bucket: Bucket | None, now: datetime) -> datetime:
    """The first instant from now on at which a token is available."""
    filled = _fill(rate, bucket, now)
    missing = max(0, _price(rate) - filled.credit)
    return max(now, filled.at + -(-missing // rate.count) * _MICROSECOND)


def _fill(rate: Rate, bucket: Bucket | None, now: datetime) -> Bucket:
    """The bucket refilled up to now.

    A bucket from slightly later than now stays as it is: clocks differ. One from much later was
    written by a wrong clock and starts at now.
    """
    most = _most(rate)
    if bucket is None:
        return Bucket(most, now)
    credit = max(0, min(bucket.credit, most))
    elapsed = (now - bucket.at) // _MICROSECOND
    if elapsed < 0:
        return Bucket(credit, now if -elapsed * rate.count > most else bucket.at)
    return Bucket(min(credit + elapsed * rate.count, most), now)


def _price(rate: Rate) -> int:
    """The credit one token costs."""
    return rate.per // _MICROSECOND


def _most(rate: Rate) -> int:
    return rate.most * _price(rate)
