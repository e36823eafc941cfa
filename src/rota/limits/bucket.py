"""A bucket of tokens: each job that starts takes one, and time fills it again.

All numbers are whole: credit is counted in microseconds of waiting, times the tokens of a period,
so that nothing is lost or won by rounding.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from rota.jobs.record import Instant
from rota.limits.record import Rate

_MICROSECOND = timedelta(microseconds=1)


class Bucket(msgspec.Struct, frozen=True):
    """What was in it at an instant; none that is kept is a full one."""

    credit: int
    at: Instant


class Taken(NamedTuple):
    """How many tokens were there, of those wanted, and the bucket without them."""

    token_count: int
    bucket: Bucket


def take_tokens(rate: Rate, bucket: Bucket | None, wanted: int, now: datetime) -> Taken:
    """Take as many of the wanted tokens as there are."""
    filled = _fill(rate, bucket, now)
    count = min(max(wanted, 0), filled.credit // _price(rate))
    return Taken(count, Bucket(filled.credit - count * _price(rate), filled.at))


def give_back_tokens(rate: Rate, bucket: Bucket | None, count: int, now: datetime) -> Bucket:
    """Put back tokens that were not used; what does not go in is lost."""
    filled = _fill(rate, bucket, now)
    return Bucket(min(filled.credit + count * _price(rate), _most(rate)), filled.at)


def next_token_at(rate: Rate, bucket: Bucket | None, now: datetime) -> datetime:
    """The first instant, from now on, at which there is a token."""
    filled = _fill(rate, bucket, now)
    missing = max(0, _price(rate) - filled.credit)
    return max(now, filled.at + -(-missing // rate.count) * _MICROSECOND)


def _fill(rate: Rate, bucket: Bucket | None, now: datetime) -> Bucket:
    """The bucket with what has come in since.

    One from a little later than now is left as it is: clocks differ. One from so much later that it
    could have filled meanwhile was written by a clock that was wrong, and begins now.
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
    """The credit that one token costs."""
    return rate.per // _MICROSECOND


def _most(rate: Rate) -> int:
    return rate.most * _price(rate)
