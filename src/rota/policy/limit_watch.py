"""Keeps a worker's limits up to date with the store, and reserves rate tokens before a lease."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from rota.errors import RotaError
from rota.jobs import Job
from rota.policy.limits import (
    BUCKETS,
    CHANGES,
    LATEST_CHANGE,
    LIMITS,
    Bucket,
    Damage,
    Limit,
    Rate,
    Taken,
    decode_limit,
    give_back_tokens,
    key_of,
    next_token_at,
    take_tokens,
)
from rota.stores.protocol import (
    Cap,
    Document,
    DocumentStore,
    DocumentWrite,
    JobStore,
    LeaseRequest,
    is_chosen,
)

MOST_RACES = 3
"""How often a contended bucket is retried."""


class Rated(NamedTuple):
    """A rate, and the key of its bucket."""

    key: str
    rate: Rate


_Change: TypeAlias = Callable[[Rated, Bucket | None], Taken]


class Reserved(NamedTuple):
    """The reserved tokens, and each bucket as it was left, by key."""

    counts: Mapping[str, int]
    buckets: Mapping[str, Bucket]


def rated_of(limit: Limit) -> Rated | None:
    """The bucket of a limit, if it has a rate."""
    if limit.rate is None:
        return None
    return Rated(key_of(limit.tenant, limit.queue), limit.rate)


async def reserve(
    store: DocumentStore, rates: Sequence[Rated], wanted: int, now: datetime
) -> Reserved:
    """Reserve up to ``wanted`` tokens from each bucket."""

    def take(rated: Rated, bucket: Bucket | None) -> Taken:
        return take_tokens(rated.rate, bucket, wanted, now)

    return await _change(store, rates, take)


async def give_back(
    store: DocumentStore, rates: Sequence[Rated], unused: Mapping[str, int], now: datetime
) -> None:
    """Return reserved tokens.

    Tokens that cannot be returned are lost; the bucket refills with time.
    """

    def put(rated: Rated, bucket: Bucket | None) -> Taken:
        count = unused[rated.key]
        return Taken(count, give_back_tokens(rated.rate, bucket, count, now))

    await _change(store, [rated for rated in rates if unused.get(rated.key)], put)


async def _change(store: DocumentStore, rates: Sequence[Rated], change: _Change) -> Reserved:
    counts = dict.fromkeys((rated.key for rated in rates), 0)
    buckets: dict[str, Bucket] = {}
    for _ in range(MOST_RACES):
        if not rates:
            break
        kept = await store.read(BUCKETS, [rated.key for rated in rates])
        found = {key: _decode(document.body) for key, document in kept.items()}
        drawn = {rated.key: change(rated, found.get(rated.key)) for rated in rates}
        buckets |= {key: each.bucket for key, each in drawn.items()}
        writes = [
            DocumentWrite(
                BUCKETS,
                key,
                kept[key].version if key in kept else None,
                msgspec.json.encode(each.bucket),
            )
            for key, each in drawn.items()
            if each.token_count
        ]
        versions = dict(zip((it.key for it in writes), await store.write_each(writes), strict=True))
        counts |= {key: drawn[key].token_count for key, it in versions.items() if it is not None}
        rates = [rated for rated in rates if versions.get(rated.key, 0) is None]
    return Reserved(counts, buckets)


def _decode(body: bytes) -> Bucket | None:
    """An unreadable bucket counts as full and is replaced."""
    try:
        return msgspec.json.decode(body, type=Bucket)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


REFRESH_FOR = timedelta(seconds=2)
"""How long the last read is trusted."""

REREAD_FOR = timedelta(minutes=1)
"""How soon a change is noticed when its writer died before it could notify."""


class LimitStore(DocumentStore, JobStore, Protocol):
    """A store of documents and jobs, as every opened store is."""


class LeasedUnderLimits(NamedTuple):
    """Jobs leased under the current limits.

    ``is_limited``: there are limits, so due jobs may have been skipped. ``again_at`` is when the
    next skipped job can get a token.
    """

    jobs: Sequence[Job]
    is_limited: bool = False
    again_at: datetime | None = None


class LimitWatch:
    """Leases jobs under the stored limits, which it reads every few seconds.

    An unreadable document is listed in ``damages``; its last readable version still applies.
    """

    def __init__(self, store: LimitStore, *, refresh_for: timedelta = REFRESH_FOR) -> None:
        self._store = store
        self._refresh_for = refresh_for
        self._looked_at: datetime | None = None
        self._read_at: datetime | None = None
        self._change = 0
        self._limits: Mapping[str, Limit] = {}
        self.damages: tuple[Damage, ...] = ()

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The current limits, in key order."""
        return tuple(self._limits.values())

    async def refresh(self, now: datetime) -> bool:
        """Read changes, unless that happened a moment ago. Returns whether the limits were read.

        Store errors are raised, and the last read still applies.
        """
        return await self._refresh(now, self._refresh_for)

    async def refresh_ahead(self, now: datetime) -> None:
        """Read changes when half of the refresh interval has passed.

        Done while idle, this saves the next job the wait.
        """
        await self._refresh(now, self._refresh_for / 2)

    async def _refresh(self, now: datetime, recent_for: timedelta) -> bool:
        if _is_recent(self._looked_at, now, recent_for):
            return False
        latest = (await self._store.read(CHANGES, [LATEST_CHANGE])).get(LATEST_CHANGE)
        change = 0 if latest is None else latest.version
        is_current = change == self._change and _is_recent(self._read_at, now, REREAD_FOR)
        if not is_current:
            await self._read_all()
            self._read_at, self._change = now, change
        self._looked_at = now
        return not is_current

    async def lease(self, request: LeaseRequest, now: datetime) -> LeasedUnderLimits:
        """As ``JobStore.lease``, under the limits that apply to the request.

        Until the first successful read it leases nothing and raises the store's error.
        """
        await self.refresh(now)
        limits = [limit for limit in self._limits.values() if _concerns(limit, request)]
        if not limits:
            return LeasedUnderLimits(await self._store.lease(request, now))
        rates = [rated for limit in limits if (rated := rated_of(limit)) is not None]
        if not rates:
            return LeasedUnderLimits(
                await self._store.lease(_limited(request, limits), now), is_limited=True
            )
        due_at = await self._store.next_due_at(now, request.queues, request.tenants)
        if due_at is None or due_at > now:  # don't move tokens back and forth for nothing
            return LeasedUnderLimits((), is_limited=True)
        return await self._lease_at_rate(request, limits, rates, now)

    async def _lease_at_rate(
        self,
        request: LeaseRequest,
        limits: Sequence[Limit],
        rates: Sequence[Rated],
        now: datetime,
    ) -> LeasedUnderLimits:
        """Lease with reserved tokens.

        When the outcome of the lease is unknown, the tokens stay spent.
        """
        reserved = await reserve(self._store, rates, request.limit, now)
        jobs = await self._store.lease(_limited(request, limits, reserved.counts), now)
        unused = {
            _key(limit): reserved.counts[_key(limit)] - _count_in(limit, jobs)
            for limit in limits
            if limit.rate is not None
        }
        with suppress(RotaError):  # the jobs are leased, and the bucket refills with time
            await give_back(self._store, rates, unused, now)
        waits = [
            next_token_at(rated.rate, reserved.buckets[rated.key], now)
            for rated in rates
            if _is_short(rated, reserved, unused, request.limit)
        ]
        return LeasedUnderLimits(jobs, is_limited=True, again_at=min(waits, default=None))

    async def _read_all(self) -> None:
        limits: dict[str, Limit] = {}
        damages: list[Damage] = []
        async for page in self._store.scan(LIMITS):
            for document in page:
                self._take(document, limits, damages)
        self._limits, self.damages = limits, tuple(damages)

    def _take(self, document: Document, limits: dict[str, Limit], damages: list[Damage]) -> None:
        found = decode_limit(document.key, document.body)
        if isinstance(found, Damage):
            damages.append(found)
            if document.key in self._limits:
                limits[document.key] = self._limits[document.key]
        else:
            limits[document.key] = found


def _limited(
    request: LeaseRequest, limits: Sequence[Limit], tokens: Mapping[str, int] | None = None
) -> LeaseRequest:
    """The request, narrowed by the limits."""
    counts = tokens or {}
    caps = [
        Cap(limit.tenant, limit.queue, limit.running, counts.get(_key(limit)))
        for limit in limits
        if limit.running is not None or limit.rate is not None
    ]
    ageing = {it.queue: it.ageing for it in limits if it.queue is not None and it.ageing}
    return replace(
        request,
        caps=(*request.caps, *caps),
        ageing={**ageing, **(request.ageing or {})} or None,
    )


def _concerns(limit: Limit, request: LeaseRequest) -> bool:
    """Whether the limit applies to any job of the request."""
    return (limit.tenant is None or is_chosen(limit.tenant, request.tenants)) and (
        limit.queue is None or is_chosen(limit.queue, request.queues)
    )


def _count_in(limit: Limit, jobs: Sequence[Job]) -> int:
    return sum(
        limit.tenant in (None, job.tenant) and limit.queue in (None, job.queue) for job in jobs
    )


def _is_short(rated: Rated, reserved: Reserved, unused: Mapping[str, int], wanted: int) -> bool:
    """Whether there were too few tokens, as far as is known."""
    return reserved.counts[rated.key] < wanted and not unused[rated.key]


def _key(limit: Limit) -> str:
    return key_of(limit.tenant, limit.queue)


def _is_recent(instant: datetime | None, now: datetime, lasting: timedelta) -> bool:
    """Whether the last read is recent. False when the clock was set back."""
    return instant is not None and instant <= now < instant + lasting
