"""The sharded store: every call goes to the shard of its tenant, or to all and is put together.

All documents are on the home shard, the first one, and its clock is the time of all shards.
"""

import asyncio
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

from rota.clock.protocol import Clock, to_utc
from rota.errors import (
    DuplicateJobError,
    RotaError,
    StoreUnavailableError,
    TenantMovingError,
    UnsupportedConnectionError,
)
from rota.jobs import Change, Job, JobId
from rota.jobs.retention import Expiry
from rota.stores.kernel.records import check_portion
from rota.stores.kernel.settlement import check_path
from rota.stores.opened import ClosableStore, MoveReport, OpenStore, ShardReport
from rota.stores.protocol import (
    Applied,
    Document,
    DocumentStore,
    EndedPlace,
    HeldLease,
    Inserted,
    JobStore,
    KeptDocument,
    LeaseKeeper,
    LeasePreview,
    LeaseRequest,
    Listener,
    Portion,
    Pruned,
    QueueDepth,
    Reach,
    Record,
    TransactionalStore,
    Watchable,
    check_choice,
    check_count,
)
from rota.stores.shards import merge
from rota.stores.shards.keeper import HeldTenants, ShardKeeper, merge_extended
from rota.stores.shards.lease import close_tenants, is_shared, lease_in_turns, without_shared
from rota.stores.shards.listeners import listen_to_all
from rota.stores.shards.members import Members
from rota.stores.shards.placement import Placement
from rota.stores.shards.places import Places
from rota.stores.shards.view import PlacementView, check_connection, join

_TAKEN = "its id is taken by another job"
_NARROWEST = (Reach.PROCESS, Reach.HOST, Reach.NETWORK)


Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")
Verb: TypeAlias = Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Answer]]
"""A coroutine method with these arguments."""


def _ask_home(verb: Verb[Arguments, Answer]) -> Verb[Arguments, Answer]:
    """The verb as the home shard answers it. A connection of the caller's is to that shard."""
    name = verb.__name__

    @wraps(verb)
    async def call(self: Any, *given: Any, **named: Any) -> Any:
        return await getattr(self.members.home, name)(*given, **named)

    return cast("Verb[Arguments, Answer]", call)


def _ask_shard(verb: Verb[Arguments, Answer], *, writes: bool = False) -> Verb[Arguments, Answer]:
    """The verb as the shard of its tenant answers it."""
    name = verb.__name__

    @wraps(verb)
    async def call(self: Any, tenant: str, *given: Any, **named: Any) -> Any:
        shard = await self.locate(tenant, writes=writes)
        return await getattr(shard, name)(tenant, *given, **named)

    return cast("Verb[Arguments, Answer]", call)


class ShardedStore(ClosableStore):
    """Several stores that work as one. Each tenant lies wholly on one of them."""

    def __init__(self, members: Members, view: PlacementView) -> None:
        super().__init__()
        self.members = members
        self.view = view
        self.reach = min((each.reach for each in members.values()), key=_NARROWEST.index)
        self._places = Places(members.home)
        self._held = HeldTenants()
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, openers: Mapping[str, Callable[[], Awaitable[OpenStore]]], clock: Clock
    ) -> Self:
        """Open all shards. If one cannot be opened, or does not belong to the others, none is."""
        opened: dict[str, OpenStore] = {}
        try:
            for name, opener in openers.items():
                opened[name] = await opener()
            placement = await join(opened)
        except BaseException:
            for store in opened.values():
                await store.close()
            raise
        watchable = all(isinstance(store, Watchable) for store in opened.values())
        kind = WatchableShardedStore if watchable and cls is ShardedStore else cls
        members = Members(opened)
        return kind(members, PlacementView(members.home, clock, placement))  # type: ignore[return-value]  # a subclass

    async def locate(self, tenant: str, *, writes: bool = False) -> OpenStore:
        """The shard that holds a tenant; refused if the call writes and the tenant is frozen."""
        placement = await self._current()
        if writes:
            self._refuse_frozen(placement, [tenant])
        return self.members[placement.locate(tenant)]

    async def _current(self) -> Placement:
        self._refuse_when_unusable()
        return await self.view.current()

    def _refuse_frozen(self, placement: Placement, tenants: Iterable[str]) -> None:
        for tenant in tenants:
            move = placement.frozen(tenant)
            if move is not None:
                raise TenantMovingError(tenant, move.target)

    async def _names_of(self, tenants: Collection[str] | None) -> Collection[str]:
        """The shards that hold these tenants; None for all."""
        placement = await self._current()
        check_choice(tenants, "tenants")
        if tenants is None:
            return self.members.keys()
        return {placement.locate(tenant) for tenant in tenants}

    # Documents: all of them are on the home shard.

    def scan(self, collection: str) -> AsyncIterator[Sequence[Document]]:
        """See ``DocumentStore.scan``."""
        return self.members.home.scan(collection)

    read = _ask_home(DocumentStore.read)
    write_each = _ask_home(DocumentStore.write_each)
    write_all = _ask_home(DocumentStore.write_all)
    read_within = _ask_home(TransactionalStore.read_within)
    write_within = _ask_home(TransactionalStore.write_within)
    read_clock = _ask_home(OpenStore.read_clock)

    # Jobs of one tenant: its shard answers.

    get = _ask_shard(JobStore.get)
    results = _ask_shard(JobStore.results)
    find = _ask_shard(JobStore.find)
    count = _ask_shard(JobStore.count)
    attempts = _ask_shard(JobStore.attempts)
    find_dependents = _ask_shard(JobStore.find_dependents)
    amend = _ask_shard(JobStore.amend, writes=True)
    delete = _ask_shard(JobStore.delete, writes=True)
    erase = _ask_shard(OpenStore.erase, writes=True)

    def listen_for_end(
        self, tenant: str, job_ids: Collection[JobId]
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen_for_end``."""
        self._refuse_when_unusable()
        shard = self.members[self.view.placement.locate(tenant)]
        return shard.listen_for_end(tenant, job_ids)

    # Several tenants: the call is split, and the answers are put together.

    async def insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        """See ``JobStore.insert``. Jobs of several shards are inserted shard by shard.

        Each shard creates all of its jobs or none. All of them are checked before any is written;
        if a shard fails after another has written, the error's ``details["inserted"]`` names the
        tenants whose jobs exist. Then repeat the call with the same ids.
        """
        to_utc(now, "now")
        parts = await self._split_jobs(jobs)
        if len(parts) == 1:
            (name,) = parts
            return await self.members[name].insert(jobs, now)
        await self._check_parts(parts, now)
        answers: dict[str, list[Inserted]] = {}
        for name, part in parts.items():
            try:
                answers[name] = await self.members[name].insert(list(part.values()), now)
            except RotaError as error:
                written = {each.job.tenant for one in answers.values() for each in one}
                error.details["inserted"] = sorted(written)
                raise
        return _join_parts(parts, answers)

    async def check_insertion(self, jobs: Sequence[Job], now: datetime) -> None:
        """See ``OpenStore.check_insertion``."""
        to_utc(now, "now")
        await self._check_parts(await self._split_jobs(jobs), now)

    async def _split_jobs(self, jobs: Sequence[Job]) -> dict[str, dict[int, Job]]:
        """The jobs to insert on each shard, if that may be done now."""
        placement = await self._current()
        tenants = {job.tenant for job in jobs}
        self._refuse_frozen(placement, tenants)
        await self.view.pin(tenants)
        return self._split(jobs, [job.tenant for job in jobs])

    async def _check_parts(self, parts: Mapping[str, Mapping[int, Job]], now: datetime) -> None:
        """Raise what one of the shards would raise. Each is asked about the ids of all jobs."""
        jobs = [job for part in parts.values() for job in part.values()]
        owners = {job.id: job.tenant for job in jobs}
        for job in jobs:
            if owners[job.id] != job.tenant:
                raise DuplicateJobError(job.id, _TAKEN)

        async def check(name: str, shard: OpenStore) -> None:
            await shard.check_insertion(list(parts[name].values()), now)
            mine = {job.id for job in parts[name].values()}
            others = [job for job in jobs if job.id not in mine]
            await _refuse_taken_ids(shard, others, {job.tenant for job in parts[name].values()})

        await self.members.ask_each(parts, check)

    def _split(self, items: Sequence[Any], tenants: Sequence[str]) -> dict[str, dict[int, Any]]:
        """The items of each shard, with their positions; none leave one part, of the home shard."""
        locate = self.view.placement.locate
        parts: dict[str, dict[int, Any]] = {}
        for index, (item, tenant) in enumerate(zip(items, tenants, strict=True)):
            parts.setdefault(locate(tenant), {})[index] = item
        return parts or {next(iter(self.members)): {}}

    async def insert_within(
        self, connection: Any, jobs: Sequence[Job], now: datetime
    ) -> list[Inserted]:
        """See ``JobStore.insert_within``; the connection is to the shard of these jobs."""
        parts = await self._split_jobs(jobs)
        if len(parts) > 1:
            raise UnsupportedConnectionError(
                f"the jobs lie on several shards ({', '.join(parts)}): insert the jobs of one "
                "tenant in one transaction"
            )
        (name,) = parts
        await check_connection(self.members[name], connection, name)
        return await self.members[name].insert_within(connection, jobs, now)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """See ``JobStore.apply``; each shard applies its changes in one step.

        Changes of a tenant that is moving are refused, after those of others are applied.
        """
        to_utc(now, "now")
        for change in changes:
            check_path(change)
        placement = await self._current()
        tenants = [change.job.tenant for change in changes]
        if not any(map(placement.frozen, tenants)):
            return await self._apply(changes, now)
        free = [each for each in changes if placement.frozen(each.job.tenant) is None]
        if free:
            await self._apply(free, now)
        self._refuse_frozen(placement, tenants)
        return []

    async def _apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        parts = self._split(changes, [change.job.tenant for change in changes])
        applied = await self.members.ask_each(
            parts, lambda name, shard: shard.apply(list(parts[name].values()), now)
        )
        answers = _join_parts(parts, applied)
        self._held.forget(change.job_id for change in changes)
        return answers

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """See ``JobStore.lease``. A shard that is not available does not hold up the others."""
        names = await self._names_of(request.tenants)
        to_utc(now, "now")
        leased = await self._lease_shared(names, request, now)
        self._held.note(leased)
        return leased

    async def _lease_shared(
        self, names: Collection[str], request: LeaseRequest, now: datetime
    ) -> list[Job]:
        if not any(map(is_shared, request.caps)):
            return await self._lease(names, request, now)
        try:
            async with self._places.hold(now) as is_held:
                if is_held:
                    return await self._lease(names, request, now)
        except StoreUnavailableError:
            pass  # then what a shard runs is not known, and the scopes stay closed
        return await self._lease(names, without_shared(request), now)

    async def _lease(
        self, names: Collection[str], request: LeaseRequest, now: datetime
    ) -> list[Job]:
        closed = self.view.placement.closed_on
        if len(names) == 1 and not any(map(is_shared, request.caps)):
            (name,) = names
            return await self.members[name].lease(close_tenants(request, closed(name)), now)
        return await lease_in_turns(self.members, names, request, now, closed)

    async def preview_lease(self, request: LeaseRequest, now: datetime) -> LeasePreview:
        """See ``OpenStore.preview_lease``."""
        names = await self._names_of(request.tenants)
        closed = self.view.placement.closed_on
        previews = await self.members.ask_available(
            names,
            lambda name, shard: shard.preview_lease(close_tenants(request, closed(name)), now),
        )
        return merge.merge_previews(previews.values(), request.after_tenant)

    async def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """See ``JobStore.extend``."""
        placement = await self._current()
        parts = self._held.split(held, placement, self.members)

        async def extend(name: str, shard: OpenStore) -> list[bool]:
            answers = await shard.extend(parts[name], until, now)
            kept = [
                lease.job_id for lease, is_held in zip(parts[name], answers, strict=True) if is_held
            ]
            copies: set[JobId] = set()
            for tenant in placement.copied_on(name) if kept else ():
                copies |= (await shard.get(tenant, kept)).keys()
            leases = zip(parts[name], answers, strict=True)
            return [is_held and lease.job_id not in copies for lease, is_held in leases]

        return merge_extended(held, parts, await self.members.ask_each(parts, extend))

    def make_keeper(self) -> LeaseKeeper:
        """See ``JobStore.make_keeper``."""
        self._refuse_when_unusable()
        keepers = {name: each.make_keeper() for name, each in self.members.items()}
        return ShardKeeper(keepers, self._held, self.view, self._loop)

    async def find_expired(self, now: datetime, limit: int, after: Job | None = None) -> list[Job]:
        """See ``JobStore.find_expired``; shards that are not available are left out."""
        placement = await self._current()
        check_count(limit)

        async def find(name: str, shard: OpenStore) -> list[Job]:
            closed, last = placement.closed_on(name), after
            while True:
                page = await shard.find_expired(now, limit, last)
                found = [job for job in page if job.tenant not in closed]
                if found or len(page) < limit:
                    return found
                last = page[-1]

        pages = await self.members.ask_available(self.members, find)
        return merge.merge_expired(pages.values(), limit)

    async def next_due_at(
        self,
        now: datetime,
        queues: Collection[str] | None = None,
        tenants: Collection[str] | None = None,
    ) -> datetime | None:
        """See ``JobStore.next_due_at``; shards that are not available are left out."""
        names = await self._names_of(tenants)
        found = await self.members.ask_available(
            names, lambda _, shard: shard.next_due_at(now, queues, tenants)
        )
        return merge.earliest(found.values())

    def listen(
        self, queues: Collection[str] | None = None, tenants: Collection[str] | None = None
    ) -> AbstractAsyncContextManager[Listener]:
        """See ``JobStore.listen``."""
        self._refuse_when_unusable()
        return listen_to_all([each.listen(queues, tenants) for each in self.members.values()])

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        """See ``JobStore.prune``. Each shard looks at an equal part of the jobs, at least one."""
        self._refuse_when_unusable()
        share = max(1, check_count(limit) // len(self.members))
        pruned = await self.members.ask_all(
            lambda _, shard: shard.prune(ended_before, share, expiry, after)
        )
        answers = list(pruned.values())
        left = limit - sum(each.looked for each in answers)
        for index, shard in enumerate(self.members.values()):
            place = answers[index].place
            if left > 0 and place is not None:
                more = await shard.prune(ended_before, left, expiry, place)
                left -= more.looked
                answers[index] = merge.add_pruned(answers[index], more)
        return merge.merge_pruned(answers)

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """See ``JobStore.survey``; each shard answers for one moment."""
        placement = await self._current()
        if tenant is not None:
            return await (await self.locate(tenant)).survey(now, tenant)

        async def survey(name: str, shard: OpenStore) -> list[QueueDepth]:
            copies = [await shard.survey(now, each) for each in placement.copied_on(name)]
            return merge.without_copies(await shard.survey(now), copies)

        return merge.merge_depths((await self.members.ask_all(survey)).values())

    async def dump(self, cursor: str | None = None, limit: int = 1000) -> Portion:
        """See ``PortableStore.dump``: shard by shard, without the documents of the shards."""
        placement = await self._current()
        check_portion(limit)
        names = list(self.members)
        name, inner = (names[0], None) if cursor is None else merge.read_cursor(cursor, names)
        portion = await self.members[name].dump(inner, limit)
        records = merge.visible(portion, placement, name, is_home=name == names[0])
        if portion.cursor is not None:
            return Portion(records, merge.write_cursor(name, portion.cursor))
        following = names[names.index(name) + 1 :]
        return Portion(records, merge.write_cursor(following[0], None) if following else None)

    async def load(self, records: Sequence[Record], now: datetime) -> int:
        """See ``PortableStore.load``: documents go to the home shard, jobs to their tenant's."""
        placement = await self._current()
        tenants = {merge.tenant_of(each) for each in records if not isinstance(each, KeptDocument)}
        self._refuse_frozen(placement, tenants)
        await self.view.pin(tenants)
        parts: dict[str, list[Record]] = {}
        for record in records:
            parts.setdefault(self._name_for(record), []).append(record)
        loaded = await self.members.ask_each(
            parts, lambda name, shard: shard.load(parts[name], now)
        )
        return sum(loaded.values())

    def _name_for(self, record: Record) -> str:
        if isinstance(record, KeptDocument):
            return next(iter(self.members))
        return self.view.placement.locate(merge.tenant_of(record))

    def shard_of(self, tenant: str) -> str:
        """See ``Sharded.shard_of``."""
        return self.view.placement.locate(tenant)

    async def describe_shards(self, now: datetime) -> tuple[list[ShardReport], list[MoveReport]]:
        """See ``Sharded.describe_shards``."""
        placement = await self._current()
        depths = await self.members.ask_available(self.members, lambda _, shard: shard.survey(now))
        placed = Counter(placement.exceptions.values())
        home = next(iter(self.members))
        shards = [
            ShardReport(
                name, name == home, name in placement.hashed, placed[name], depths.get(name)
            )
            for name in self.members
        ]
        moves = [
            MoveReport(tenant, it.source, it.target, it.phase, it.since)
            for tenant, it in sorted(placement.moves.items())
        ]
        return shards, moves

    async def _release(self) -> None:
        await asyncio.gather(*(each.close() for each in self.members.values()))


class WatchableShardedStore(ShardedStore):
    """A sharded store whose shards all show whether anything was written."""

    def read_version(self) -> int | None:
        """See ``Watchable``."""
        self._refuse_when_unusable()
        versions = tuple(
            each.read_version() for each in self.members.values() if isinstance(each, Watchable)
        )
        return None if None in versions else hash(versions)


def _join_parts(
    parts: Mapping[str, Mapping[int, Any]], answers: Mapping[str, Sequence[Any]]
) -> list[Any]:
    """The answers in the order of the caller's items."""
    placed = {
        index: answer
        for name, part in parts.items()
        for index, answer in zip(part, answers[name], strict=True)
    }
    return [placed[index] for index in sorted(placed)]


async def _refuse_taken_ids(
    shard: OpenStore, jobs: Sequence[Job], tenants: Collection[str]
) -> None:
    """Refuse ids that jobs of these tenants have: a caller repeats ids only by mistake."""
    ids = [job.id for job in jobs]
    for tenant in tenants:
        for taken in await shard.get(tenant, ids):
            raise DuplicateJobError(taken, _TAKEN)
