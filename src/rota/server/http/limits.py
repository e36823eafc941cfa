"""Rate limits for callers, and the limit on waiting jobs."""

from datetime import datetime, timedelta
from ipaddress import IPv6Network
from typing import NamedTuple

from starlette.types import Scope as AsgiScope

from rota.auth.caller import Caller
from rota.clock.protocol import Clock
from rota.errors import QuotaExceededError
from rota.policy.limits import Bucket, Rate, next_token_at, take_tokens
from rota.stores.protocol import JobStore

MOST_REMEMBERED = 10_000
"""The number of callers or tenants counted at once. The least recent one is forgotten."""

COUNTED_EVERY = timedelta(minutes=1)
RECOUNTED_EVERY = timedelta(seconds=1)
"""While a tenant is over the limit, its jobs are counted again this often."""

_SECOND = timedelta(seconds=1)
_IPV6_HOST_BITS = 64
_SHARE = 10


class RateLimiter:
    """Limits the rate of each of many named callers."""

    def __init__(self, rate: Rate | None, quota: str, most: int = MOST_REMEMBERED) -> None:
        self._rate = rate
        self._quota = quota
        self._most = most
        self._buckets: dict[str, Bucket] = {}

    def take(self, name: str, now: datetime) -> None:
        """Count one request. QuotaExceededError when it is one too many; then it is not counted."""
        if self._rate is None:
            return
        taken = take_tokens(self._rate, self._buckets.pop(name, None), 1, now)
        while len(self._buckets) >= self._most:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[name] = taken.bucket
        if taken.token_count < 1:
            raise self._refusal(self._rate, name, now)

    def check(self, name: str, now: datetime) -> None:
        """Refuse as ``take`` would, but count nothing."""
        if self._rate is None:
            return
        if take_tokens(self._rate, self._buckets.get(name), 1, now).token_count < 1:
            raise self._refusal(self._rate, name, now)

    def _refusal(self, rate: Rate, name: str, now: datetime) -> QuotaExceededError:
        waits_for = next_token_at(rate, self._buckets.get(name), now) - now
        seconds = max(1, -(-waits_for // _SECOND))
        reason = f"more than {rate.count} in {rate.per.total_seconds():g} s"
        return QuotaExceededError(f"Too many requests: {reason}", self._quota, seconds)


class CallerLimits:
    """One limiter for known callers, by token, and one for strangers, by address."""

    def __init__(self, token_rate: Rate | None, stranger_rate: Rate | None, clock: Clock) -> None:
        self._known = RateLimiter(token_rate, "token_rate")
        self._strangers = RateLimiter(stranger_rate, "stranger_rate")
        self._clock = clock

    def check_stranger(self, scope: AsgiScope) -> None:
        """Refuse an address with too many failed requests, before the store is queried."""
        self._strangers.check(_address_of(scope), self._clock.now())

    def count_stranger(self, scope: AsgiScope) -> None:
        self._strangers.take(_address_of(scope), self._clock.now())

    def count_caller(self, caller: Caller) -> None:
        if caller.token_id is not None:
            self._known.take(caller.token_id, self._clock.now())


def _address_of(scope: AsgiScope) -> str:
    """The client address. An IPv6 /64 network counts as one address."""
    client = scope.get("client")
    address = client[0] if client else "unknown"
    if ":" not in address:
        return str(address)
    try:
        return str(IPv6Network((address, _IPV6_HOST_BITS), strict=False))
    except ValueError:
        return str(address)


class Count(NamedTuple):
    """The number of waiting jobs when they were counted, and of jobs added since."""

    waiting_count: int
    added_count: int
    counted_at: datetime


class WaitingQuota:
    """Refuses new jobs for a tenant with too many waiting jobs, at little cost.

    Counts the jobs in the store once a minute, and when the jobs added here since have used up a
    tenth of the free room. Several servers on one store may together exceed the limit by what they
    add within a minute.
    """

    def __init__(self, store: JobStore, clock: Clock, limit: int | None) -> None:
        self._store = store
        self._clock = clock
        self._limit = limit
        self._counts: dict[str, Count] = {}

    async def admit(self, tenant: str, job_count: int = 1) -> None:
        """Count jobs that are about to be stored; QuotaExceededError when they are too many."""
        if self._limit is None:
            return
        now = self._clock.now()
        count = self._counts.get(tenant)
        if count is None or self._is_outdated(count, job_count, self._limit, now):
            count = Count(await self._count(tenant, now), 0, now)
        if count.waiting_count + count.added_count + job_count > self._limit:
            self._keep(tenant, count)
            raise QuotaExceededError(
                f"Too many jobs are waiting: no more than {self._limit} may",
                "waiting_limit",
                int(RECOUNTED_EVERY.total_seconds()),
            )
        self._keep(tenant, count._replace(added_count=count.added_count + job_count))

    def _is_outdated(self, count: Count, job_count: int, limit: int, now: datetime) -> bool:
        free = max(0, limit - count.waiting_count)
        is_full = count.added_count + job_count > free
        age = now - count.counted_at
        if age < timedelta():
            return True
        if is_full:
            return age >= RECOUNTED_EVERY
        return age >= COUNTED_EVERY or count.added_count > free // _SHARE

    async def _count(self, tenant: str, now: datetime) -> int:
        depths = await self._store.survey(now, tenant)
        return sum(depth.due_count + depth.later_count for depth in depths)

    def _keep(self, tenant: str, count: Count) -> None:
        self._counts.pop(tenant, None)
        while len(self._counts) >= MOST_REMEMBERED:
            del self._counts[next(iter(self._counts))]
        self._counts[tenant] = count
