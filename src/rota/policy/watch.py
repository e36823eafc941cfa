"""Follows the settings kept in a store: the gates and the limits that workers apply."""

from asyncio import Lock, get_running_loop
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from rota.clock.protocol import Clock
from rota.errors import RotaError
from rota.jobs.record import Job
from rota.policy.gate_settings import (
    GATE_CHANGES,
    GATES,
    LATEST_CHANGE,
    Damage,
    Entry,
    GateSettings,
    decode_entry,
    make_gate_settings,
)
from rota.policy.gates import (
    Chain,
    Closed,
    Gate,
    Open,
    Refreshed,
    Spread,
    Verdict,
    spread_out,
)
from rota.policy.limits import (
    BUCKETS,
    LIMIT_CHANGES,
    LIMITS,
    Bucket,
    Limit,
    Rate,
    Taken,
    decode_limit,
    give_back_tokens,
    key_of,
    next_token_at,
    take_tokens,
)
from rota.stores.documents import all_documents, decode_body, find_document
from rota.stores.protocol import (
    Cap,
    DocumentStore,
    DocumentWrite,
    JobStore,
    LeaseRequest,
    is_chosen,
)

REFRESH_FOR = timedelta(seconds=2)
"""How long the last read is trusted."""

FRESH_FOR = timedelta(milliseconds=500)
"""A handler starts only under gates whose reading began at most this long ago."""

RENEW_AFTER = FRESH_FOR / 2
"""A worker that leases reads the gates this often, so that its handlers seldom wait for it."""

SETTLE_FOR = timedelta(seconds=1)
"""How long a call that closes a gate waits until no worker goes by what was before.

Longer than ``FRESH_FOR``: what is left covers the way from the verdict to the handler, also over
HTTP.
"""

REREAD_FOR = timedelta(minutes=1)
"""How soon a change is noticed when its writer died before it could notify."""

MOST_RACES = 3
"""How often a contended bucket is retried."""

_FRESH_SECONDS = FRESH_FOR.total_seconds()
_NO_TIME = timedelta(0)
_NO_SPREAD = Spread(over_for=_NO_TIME)
_NEVER = datetime.min.replace(tzinfo=UTC)
_UNREAD = "the gates have not been read yet"

Value = TypeVar("Value")


class _ChangesHere:
    """Counts the gate changes of this process, so that its own workers notice them at once."""

    count = 0


def note_change() -> None:
    """This process has changed a gate: its workers read the gates before they start a handler."""
    _ChangesHere.count += 1


class _Look(NamedTuple):
    """When a reading began, and the changes of this process until then.

    It is fresh until an instant of the clock, and of the event loop: its time is never set back.
    """

    at: datetime = _NEVER
    fresh_until: datetime = _NEVER
    fresh_until_loop: float = 0.0
    change_here: int = -1


class StoredSettings(Generic[Value]):
    """The decoded documents of one collection, read again after each change.

    ``changes`` is the collection of the document whose version grows with every change. An
    unreadable document is listed in ``damages``; its last readable version still applies.
    """

    def __init__(
        self,
        store: DocumentStore,
        collection: str,
        changes: str,
        decode: Callable[[str, bytes], Value | Damage],
    ) -> None:
        self.values: dict[str, Value] = {}
        self.damages: tuple[Damage, ...] = ()
        self._store = store
        self._collection = collection
        self._changes = changes
        self._decode = decode
        self._look = _Look()
        self._read_at = _NEVER
        self._change = 0
        self._bodies: dict[str, bytes] = {}

    def is_fresh(self, now: datetime) -> bool:
        """Whether the last look began at most ``FRESH_FOR`` ago, also by the event loop.

        And this process has changed nothing since. Every job asks this.
        """
        at, until, until_loop, change_here = self._look
        return (
            at <= now < until
            and change_here == _ChangesHere.count
            and get_running_loop().time() < until_loop
        )

    def is_recent(self, now: datetime, recent_for: timedelta) -> bool:
        """Whether the last look is that recent.

        It is not if this process has changed something since, or if the clock was set back.
        """
        at, change_here = self._look.at, self._look.change_here
        return change_here == _ChangesHere.count and at <= now < at + recent_for

    async def read_changes(self, now: datetime, recent_for: timedelta) -> bool:
        """Read changes, unless the last look is that recent. Returns whether it read.

        Store errors are raised, and the last read still applies.
        """
        if self.is_recent(now, recent_for):
            return False
        until_loop = get_running_loop().time() + _FRESH_SECONDS
        look = _Look(now, now + FRESH_FOR, until_loop, _ChangesHere.count)
        latest = await find_document(self._store, self._changes, LATEST_CHANGE)
        change = 0 if latest is None else latest.version
        is_recent = self._read_at <= now < self._read_at + REREAD_FOR
        is_current = is_recent and change == self._change
        if not is_current:
            await self._read_all()
            self._read_at, self._change = now, change
        self._look = look
        return not is_current

    async def _read_all(self) -> None:
        values: dict[str, Value] = {}
        bodies: dict[str, bytes] = {}
        damages: list[Damage] = []
        async for key, _, body in all_documents(self._store, self._collection):
            value = self._decode_changed(key, body)
            if isinstance(value, Damage):
                damages.append(value)
            else:
                values[key], bodies[key] = value, body
        kept = {it.key: self.values[it.key] for it in damages if it.key in self.values}
        self.values = dict(sorted((values | kept).items()))
        self._bodies, self.damages = bodies, tuple(damages)

    def _decode_changed(self, key: str, body: bytes) -> Value | Damage:
        is_known = self._bodies.get(key) == body
        return self.values[key] if is_known else self._decode(key, body)


class GateWatch(StoredSettings[Entry]):
    """A gate that follows the store. Call ``refresh`` before ``judge``.

    It also asks the gates in ``more``, and refreshes them if they can be refreshed. With ``spread``
    jobs that would all start when a gate opens are spread over some time; by default they start
    together. Until the first read it is closed to all jobs. An unreadable document is listed in
    ``damages``; its last readable version still applies.

    When a call that closes a gate has returned, no handler starts that the gate holds back. A
    handler starts only if ``is_fresh``: the reading of the gates began at most ``FRESH_FOR``
    before. The call returns ``SETTLE_FOR`` after its write, which is longer. So the reading behind
    each start after the return began after the write, and has seen it. Workers of the same process
    read again after ``note_change``, however little time has passed.
    """

    def __init__(
        self,
        store: DocumentStore,
        *,
        more: Iterable[Gate] = (),
        spread: Spread | None = None,
        refresh_for: timedelta = REFRESH_FOR,
    ) -> None:
        super().__init__(store, GATES, GATE_CHANGES, decode_entry)
        self.is_open_to_all = False
        """Whether no gate can hold back any job, by what was read."""
        self._more = tuple(more)
        self._refreshed = [gate for gate in self._more if isinstance(gate, Refreshed)]
        self._spread = spread or _NO_SPREAD
        self._refresh_for = refresh_for
        self._settings: GateSettings | None = None
        self._gate: Gate | None = None
        self._waiting: dict[datetime, int] = {}
        self._turn = Lock()

    async def refresh(self, now: datetime) -> bool:
        """Read changes, unless that happened a moment ago. Returns whether the gates were read.

        Store errors are raised, and the last read still applies. Gates in ``more`` come last, so
        that a failing one does not keep the stored ones from being refreshed.
        """
        was_read = await self.read_changes(now, self._refresh_for)
        if self._waiting:
            self._waiting = {at: count for at, count in self._waiting.items() if at > now}
        for gate in self._refreshed:
            await gate.refresh(now)
        return was_read

    async def renew(self, now: datetime) -> None:
        """Read stored changes, however recent the last look is."""
        await self.read_changes(now, _NO_TIME)

    async def make_fresh(self, clock: Clock) -> None:
        """Read stored changes unless they are fresh; those who wait share one reading."""
        async with self._turn:
            now = clock.now()
            if not self.is_fresh(now):
                await self.renew(now)

    async def refresh_ahead(self, now: datetime) -> None:
        """Read stored changes when ``RENEW_AFTER`` has passed.

        Done while no job waits, this saves the next job the wait.
        """
        await self.read_changes(now, RENEW_AFTER)

    async def _read_all(self) -> None:
        await super()._read_all()
        settings = self._settings = make_gate_settings(self.values.values())
        self._gate = Chain((settings, *self._more)) if self._more else settings
        self.is_open_to_all = settings.is_open_to_all and not self._more

    @property
    def has_more_to_refresh(self) -> bool:
        """Whether gates in ``more`` want to read their state before they judge the next jobs."""
        return bool(self._refreshed)

    def judge(self, job: Job, now: datetime, *, notifies: bool) -> Verdict:
        """The verdict of the stored entries and all other gates, spread over time."""
        if self._gate is None or self._settings is None:
            return Closed(now + self._refresh_for, _UNREAD, is_recheck=True)
        notifies = self._settings.notifies(job, declared=notifies)
        verdict = self._gate.judge(job, now, notifies=notifies)
        if isinstance(verdict, Open) or verdict.is_recheck or not self._spread.over_for:
            return verdict
        count = self._waiting.get(verdict.reopens_at, 0) + 1
        self._waiting[verdict.reopens_at] = count
        if count <= self._spread.exact_count:
            return verdict
        over_for = self._spread.over_for
        return spread_out(self._gate, job, verdict, now, notifies=notifies, over_for=over_for)


Rates: TypeAlias = Mapping[str, Rate]
"""Rates by the key of their bucket, which is that of the limit."""


class Reserved(NamedTuple):
    """The reserved tokens, and each bucket as it was left, by key."""

    counts: Mapping[str, int]
    buckets: Mapping[str, Bucket]


async def reserve(store: DocumentStore, rates: Rates, wanted: int, now: datetime) -> Reserved:
    """Reserve up to ``wanted`` tokens from each bucket."""
    return await _change(
        store, rates, lambda key, bucket: take_tokens(rates[key], bucket, wanted, now)
    )


async def give_back(
    store: DocumentStore, rates: Rates, unused: Mapping[str, int], now: datetime
) -> None:
    """Return reserved tokens.

    Tokens that cannot be returned are lost; the bucket refills with time.
    """

    def put(key: str, bucket: Bucket | None) -> Taken:
        return Taken(unused[key], give_back_tokens(rates[key], bucket, unused[key], now))

    await _change(store, [key for key in rates if unused.get(key)], put)


async def _change(
    store: DocumentStore, keys: Iterable[str], change: Callable[[str, Bucket | None], Taken]
) -> Reserved:
    left = list(keys)
    counts = dict.fromkeys(left, 0)
    buckets: dict[str, Bucket] = {}
    for _ in range(MOST_RACES):
        if not left:
            break
        kept = await store.read(BUCKETS, left)
        # An unreadable bucket counts as full and is replaced.
        drawn = {key: change(key, decode_body(kept.get(key), Bucket, None)) for key in left}
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
        left = [key for key, version in versions.items() if version is None]
    return Reserved(counts, buckets)


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


class LimitWatch(StoredSettings[Limit]):
    """Leases jobs under the stored limits, which it reads every few seconds.

    An unreadable document is listed in ``damages``; its last readable version still applies.
    """

    def __init__(self, store: LimitStore, *, refresh_for: timedelta = REFRESH_FOR) -> None:
        super().__init__(store, LIMITS, LIMIT_CHANGES, decode_limit)
        self._jobs = store
        self._refresh_for = refresh_for

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The current limits, in key order."""
        return tuple(self.values.values())

    async def refresh_ahead(self, now: datetime) -> None:
        """Read changes when half of the refresh interval has passed.

        Done while idle, this saves the next job the wait.
        """
        await self.read_changes(now, self._refresh_for / 2)

    def is_trusted(self, now: datetime) -> bool:
        """Whether a lease would not read the limits again."""
        return self.is_recent(now, self._refresh_for)

    async def refresh(self, now: datetime) -> None:
        """Read changes, unless that happened a moment ago. Store errors are raised."""
        await self.read_changes(now, self._refresh_for)

    def apply_to(self, request: LeaseRequest) -> bool:
        """Whether a limit concerns the request, as far as is known."""
        return any(_concerns(limit, request) for limit in self.values.values())

    async def lease(self, request: LeaseRequest, now: datetime) -> LeasedUnderLimits:
        """As ``JobStore.lease``, under the limits that apply to the request.

        Until the first successful read it leases nothing and raises the store's error.
        """
        await self.refresh(now)
        limits = [limit for limit in self.values.values() if _concerns(limit, request)]
        if not limits:
            return LeasedUnderLimits(await self._jobs.lease(request, now))
        rates = {_key(limit): limit.rate for limit in limits if limit.rate is not None}
        if not rates:
            return LeasedUnderLimits(
                await self._jobs.lease(_limited(request, limits), now), is_limited=True
            )
        due_at = await self._jobs.next_due_at(now, request.queues, request.tenants)
        if due_at is None or due_at > now:  # don't move tokens back and forth for nothing
            return LeasedUnderLimits((), is_limited=True)
        return await self._lease_at_rate(request, limits, rates, now)

    async def _lease_at_rate(
        self, request: LeaseRequest, limits: Sequence[Limit], rates: Rates, now: datetime
    ) -> LeasedUnderLimits:
        """Lease with reserved tokens.

        When the outcome of the lease is unknown, the tokens stay spent.
        """
        reserved = await reserve(self._store, rates, request.limit, now)
        jobs = await self._jobs.lease(_limited(request, limits, reserved.counts), now)
        unused = {
            _key(limit): reserved.counts[_key(limit)] - _count_in(limit, jobs)
            for limit in limits
            if limit.rate is not None
        }
        with suppress(RotaError):  # the jobs are leased, and the bucket refills with time
            await give_back(self._store, rates, unused, now)
        waits = [
            next_token_at(rate, reserved.buckets[key], now)
            for key, rate in rates.items()
            if reserved.counts[key] < request.limit and not unused[key]
        ]
        return LeasedUnderLimits(jobs, is_limited=True, again_at=min(waits, default=None))


def _limited(
    request: LeaseRequest, limits: Sequence[Limit], tokens: Mapping[str, int] | None = None
) -> LeaseRequest:
    """The request, narrowed by the limits."""
    counts = tokens or {}
    caps = [
        Cap(limit.tenant, limit.queue, limit.most_running, counts.get(_key(limit)))
        for limit in limits
        if limit.most_running is not None or limit.rate is not None
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


def _key(limit: Limit) -> str:
    return key_of(limit.tenant, limit.queue)
