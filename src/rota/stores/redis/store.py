"""The store in Redis or Valkey."""

from asyncio import Lock
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from rota.clock.protocol import to_utc
from rota.errors import InvalidInputError
from rota.jobs import Change, Job, JobStatus
from rota.jobs.retention import Expiry
from rota.stores.keeper import LoopKeeper
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.settlement import check_path
from rota.stores.kernel.unit import Plan
from rota.stores.kernel.verbs import ServerVerbs, SingleInserts
from rota.stores.protocol import (
    Applied,
    EndedPlace,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Portion,
    Pruned,
    Reach,
    check_count,
)
from rota.stores.redis import lease, read, records
from rota.stores.redis.address import RedisSettings
from rota.stores.redis.connections import Connections
from rota.stores.redis.database import Database
from rota.stores.redis.documents import DocumentVerbs
from rota.stores.redis.parking import Parked
from rota.stores.redis.rows import encode_attempt, encode_trials, text_of
from rota.stores.redis.scripts import load_script
from rota.stores.redis.translation import in_doubt_if
from rota.stores.redis.unit import carry_out, finish_intent, insert_unseen
from rota.stores.redis.wakeups import Notices

COMPLETE = load_script("complete")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MOST_INSERTED = 20_000
"""Jobs that one call inserts, all or none, and dependencies that they may name altogether.

While a script runs the server does nothing else, and an insert is one script.
"""

CHANGED_AT_ONCE = 1_000
"""Changes that one script writes."""

PRUNED_AT_ONCE = 500
"""Jobs that one script removes."""

_COMPLETION = (JobStatus.RUNNING, JobStatus.COMPLETED)
_pack = msgspec.msgpack.Encoder().encode

Answer = TypeVar("Answer")


class RedisStore(SingleInserts, DocumentVerbs, ServerVerbs[Database]):
    """Stores documents and jobs on a server, for every process that can reach it.

    A store belongs to the process and the event loop that opened it.
    """

    reach = Reach.NETWORK
    _reads = read
    _leases = lease
    _records = records
    _needs_uuids = True
    _notices: Notices

    uses_native_paths: ClassVar[bool] = True
    """Without them, every change of jobs but a lease goes through the kernel, for comparison."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._notices = Notices(database)
        self._limited = Lock()
        self._group_singles(database.calls)

    @classmethod
    async def open(cls, settings: RedisSettings) -> Self:
        """The store of that name on a server; an empty one if there was none."""
        return cls(await Database.open(settings))

    async def _insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """Create all of these jobs or none, up to MOST_INSERTED."""
        _refuse_too_many("jobs", len(jobs))
        _refuse_too_many("dependencies", sum(len(job.dependencies) for job in jobs))
        if self.uses_native_paths and not any(job.dependencies for job in jobs):
            inserted = await insert_unseen(self._database, jobs, now, self._notices.sender)
            if inserted is not None:
                answers, is_any_ready = inserted
                if is_any_ready:
                    self._notices.ring({(each.job.tenant, each.job.queue) for each in answers})
                return answers
        return await self._run_plan(lambda: edits.insert(jobs, now))

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """Lease due jobs, each to one caller only; see the protocol."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        jobs = None if request.is_limited else await lease.lease(self._database, request, now)
        if jobs is not None:
            return jobs
        async with self._limited:  # leases of one process under limits would only contend
            return await lease.lease_under_limits(self._database, request, now)

    async def park(
        self, request: LeaseRequest, now: datetime, receive: Callable[[Job | None], None]
    ) -> Parked | None:
        """See ``ParkingStore``. The server tells the worker before replicas have the job."""
        self._refuse_when_unusable()
        if self._database.settings.replica_count:
            return None
        return await self._notices.parking.park(request, now, receive)

    def make_keeper(self) -> LeaseKeeper:
        """A keeper of leases for another thread, with a connection of its own."""
        self._refuse_when_unusable()
        settings = self._database.settings
        database = Database(Connections(settings), settings)
        return LoopKeeper(partial(lease.extend, database), database.close)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Write each change that still holds, part by part; see the protocol."""
        self._refuse_when_unusable()
        now = to_utc(now, "now")
        for change in changes:
            if change.path != _COMPLETION:
                check_path(change)
        applied: list[Applied] = []
        for at in range(0, len(changes), CHANGED_AT_ONCE):
            with in_doubt_if(at):
                applied += await self._apply_part(changes[at : at + CHANGED_AT_ONCE], now)
        return applied

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """Jobs whose lease has expired; see the protocol."""
        self._refuse_when_unusable()
        if after is None:  # a process may have died before it finished a commit
            await finish_intent(self._database, to_utc(now, "now"))
        return await super().find_expired(now, limit, after)

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        """Remove jobs that ended before then, part by part; see the protocol."""
        self._refuse_when_unusable()
        to_utc(ended_before, "ended_before")
        left = check_count(limit)
        removed = looked = 0
        while left > 0:
            part = min(PRUNED_AT_ONCE, left)
            pruned = await super().prune(ended_before, part, expiry, after)
            removed, looked = removed + pruned.removed, looked + pruned.looked
            left, after = left - part, pruned.place
            if after is None:
                break
        return Pruned(removed, looked, after)

    async def read_clock(self) -> datetime | None:
        """The server's own time."""
        self._refuse_when_unusable()
        return await self._read_time()

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """A portion of everything that is stored; see the protocol."""
        self._refuse_when_unusable()
        if cursor is None:  # a process may have died before it finished a commit
            await finish_intent(self._database, await self._read_time())
        return await super().dump(cursor, limit)

    async def _release(self) -> None:
        await self._notices.close()
        await self._database.close()

    async def _read_time(self) -> datetime:
        seconds, micros = await self._database.call("TIME")
        return EPOCH + timedelta(0, int(seconds), int(micros))

    async def _run(self, work: Callable[[Database], Awaitable[Answer]]) -> Answer:
        self._refuse_when_unusable()
        return await work(self._database)

    async def _run_plan(self, make_plan: Callable[[], Plan[Answer]]) -> Answer:
        self._refuse_when_unusable()
        decision = await carry_out(self._database, make_plan, self._notices.sender)
        self._notices.ring_for(decision.writes)
        return decision.answer

    async def _apply_part(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """Complete plain jobs by one script; the rest goes through the kernel."""
        applied: list[Applied | None] = [None] * len(changes)
        plain = _find_plain(changes) if self.uses_native_paths else []
        if plain:
            written = await self._complete([changes[at] for at in plain])
            for at, is_written in zip(plain, written, strict=True):
                applied[at] = Applied(changes[at].job) if is_written else None
        rest = [change for change, one in zip(changes, applied, strict=True) if one is None]
        if rest:
            with in_doubt_if(len(rest) < len(changes)):
                answers = await self._run_plan(lambda: settlement.apply(rest, now))
            left = iter(answers)
            return [one or next(left) for one in applied]
        return [one for one in applied if one is not None]

    async def _complete(self, changes: Sequence[Change]) -> list[int]:
        """Run ``complete.lua``: 1 for each change that was written."""
        texts = [text for change in changes for text in _encode_completion(change)]
        reports: list[Any] = []
        for place, change in enumerate(changes, 1):
            if change.result is not None or change.attempt is not None:
                attempt = "" if change.attempt is None else encode_attempt(change.attempt)
                reports += place, (change.result or b"").decode(), attempt
        arguments = (self._notices.sender, _pack(texts), _pack(reports) if reports else b"")
        written: list[int] = await self._database.run(COMPLETE, arguments)
        ended = zip(changes, written, strict=True)
        self._notices.ring_ends([change.job_id for change, is_written in ended if is_written])
        return written


def _find_plain(changes: Sequence[Change]) -> list[int]:
    """Which changes do no more than complete a job that no other change of the call concerns."""
    counts = Counter(change.job_id for change in changes)
    return [
        at
        for at, change in enumerate(changes)
        if change.path == _COMPLETION
        and change.successor is None
        and not change.is_removed
        and counts[change.job_id] == 1
    ]


def _encode_completion(change: Change) -> tuple[str, ...]:
    """A change as ``complete.lua`` takes it."""
    job = change.job
    return (
        job.id,
        job.tenant,
        str(change.expected_token),
        text_of(job.due_at),
        text_of(job.updated_at),
        encode_trials(job),
        "" if job.completion is None else text_of(job.completion.started_at),
    )


def _refuse_too_many(field: str, count: int) -> None:
    if count > MOST_INSERTED:
        raise InvalidInputError(
            f"Redis keeps up to {MOST_INSERTED:,} {field} in one call of insert, and these are "
            f"{count:,}: insert them in parts",
            {"field": field, "limit": MOST_INSERTED},
        )
