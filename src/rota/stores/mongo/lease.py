"""``lease`` and ``extend``: which caller gets which job, and for how long.

A caller reads the first due jobs of each tenant, then claims them with one update that only one
caller can win for each job. Callers that claim the same jobs at the same time start at different
places among jobs of equal priority, so that more callers lease more.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from random import Random

from bson import ObjectId
from msgspec.structs import replace
from pymongo import MongoClient, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection

from rota.clock.protocol import to_utc
from rota.jobs import Job, JobId
from rota.stores.kernel.limits import (
    Candidate,
    Standing,
    counts_running,
    find_ranks,
    lease_chosen,
    lease_limited,
    preview_lease,
    scopes_of,
)
from rota.stores.kernel.turns import order_turns, share_out
from rota.stores.kernel.unit import Partition, answer_by, run_async
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.connection import BY_ID, JOBS, Connection, Raw, Session, options
from rota.stores.mongo.rows import decode_readable
from rota.stores.mongo.translation import translated
from rota.stores.mongo.unit import SET_ASIDE, WITHOUT_ATTEMPTS, guard
from rota.stores.protocol import (
    LOOK_AHEAD,
    CapScope,
    HeldLease,
    LeasePreview,
    LeaseRequest,
    is_chosen,
)
from rota.stores.rows import to_instant, to_micros

ORDER = (("priority", -1), ("created_at", 1), ("_id", 1))

MARKED_AT_ONCE = 500
"""How many jobs a lease marks as due, at most, once their time has come."""

WIDEST = 250
"""How many jobs of equal priority a caller may pass over because other callers want them."""

NARROWING = 0.95
"""The part of its spread that a caller keeps after a claim in which no other was faster."""


class Spread:
    """How many jobs to pass over at random; more the more often other callers were faster.

    It grows fast and shrinks slowly: while many callers lease, nearly all of their claims succeed.
    """

    def __init__(self) -> None:
        self._random: Random | None = None
        self._factor = 0.0

    def window(self, limit: int) -> int:
        """How many jobs to look at for a lease of up to ``limit``."""
        return limit + min(int(limit * self._factor), WIDEST)

    def choose_start(self, limit: int, priorities: Sequence[int]) -> int:
        """Where to start among candidates in order, so that ``limit`` of the first rank follow."""
        equal_count = sum(each == priorities[0] for each in priorities)
        if self._random is None or equal_count <= limit:
            return 0
        return self._random.randint(0, equal_count - limit)

    def note(self, worker: str, chosen_count: int, leased_count: int) -> None:
        """Learn from a claim."""
        if self._random is None:
            self._random = Random(worker)  # noqa: S311 - spreads callers, keeps no secret
        if leased_count == chosen_count:
            self._factor *= NARROWING
        else:
            self._factor = min(2 + 1.5 * self._factor, WIDEST / chosen_count)


async def take_due(
    connection: Connection, request: LeaseRequest, now: datetime, spread: Spread
) -> list[Job]:
    """Lease the next jobs, tenants in turn."""
    await mark_due(connection, now)
    taken: list[Job] = []
    while wanted := request.limit - len(taken):
        ready = ReadySet(connection, request, now)
        chosen = await ready.choose(wanted, spread)
        if not ready.accepts(chosen):
            rest = lease_chosen(replace(request, limit=wanted), now)
            queries = LimitedQueries(connection, now, None)
            return [*taken, *await run_async(rest, answer_by(queries))]
        if not chosen:
            break
        leased = await claim(connection, request, chosen, now)
        spread.note(request.worker, len(chosen), len(leased))
        taken += leased
        if len(leased) == len(chosen) < wanted:  # there were no more
            break
    return taken


async def mark_due(connection: Connection, now: datetime) -> None:
    """Move jobs whose time has come into the ready set."""
    due = {"phase": "later", "due_at": {"$lte": to_micros(now)}}
    found = connection.jobs.find(due, ["_id"], hint="later", limit=MARKED_AT_ONCE)
    ids = [raw["_id"] for raw in await found.sort([("due_at", 1), ("_id", 1)]).to_list()]
    if ids:
        where = {"_id": {"$in": ids}, **due}
        await connection.jobs.update_many(where, {"$set": {"phase": "due"}}, hint=BY_ID)


async def claim(
    connection: Connection,
    request: LeaseRequest,
    chosen: Sequence[JobId],
    now: datetime,
    session: Session | None = None,
) -> list[Job]:
    """Lease those of the jobs that are still free; returns them in the same order.

    One update leases them all and gives each a token greater than before. Its mark shows which
    jobs it leased. Jobs that cannot be read are set aside.
    """
    mark, ids, moment = ObjectId(), list(chosen), to_micros(now)
    leased = {
        "status": "RUNNING",
        "phase": "running",
        "worker": request.worker,
        "taken_at": moment,
        "until": to_micros(now + request.lease_for),
        "updated_at": moment,
        "mark": mark,
    }
    free = {
        "_id": {"$in": ids},
        "phase": "due",
        **_in_queues(request.queues),
        **_due(now),
        **_runnable(request),
    }
    update = UpdateMany(free, {"$set": leased, "$inc": {"last_token": 1}}, hint=BY_ID)
    await connection.update_marked([update], session)
    mine = {"_id": {"$in": ids}, "mark": mark, "phase": "running"}
    found = connection.jobs.find(mine, WITHOUT_ATTEMPTS, hint=BY_ID, session=session)
    raws = await found.to_list()
    jobs = decode_readable(raws)
    if len(jobs) < len(raws):
        damaged = {raw["_id"] for raw in raws} - {job.id for job in jobs}
        await set_aside(connection, damaged, session)
    places = {job_id: place for place, job_id in enumerate(chosen)}
    return sorted(jobs, key=lambda job: places[job.id])


async def set_aside(
    connection: Connection, job_ids: Collection[JobId], session: Session | None = None
) -> None:
    """Keep jobs that cannot be read where no caller meets them, with all that is known of them."""
    update = {
        "$set": {"phase": "damaged", "status": SET_ASIDE},
        "$unset": {"until": "", "ended_at": "", "mark": ""},
    }
    where = {"_id": {"$in": sorted(job_ids)}}
    await connection.jobs.update_many(where, update, session=session)


class ReadySet:
    """The due jobs that a request may lease, in the order in which they are leased."""

    def __init__(
        self,
        connection: Connection,
        request: LeaseRequest,
        now: datetime,
        session: Session | None = None,
    ) -> None:
        self._jobs: AsyncCollection[Raw] = connection.jobs
        self._request = request
        self._now = now
        self._session = session
        self._index = "due" if request.queues is None else "due_in_queue"
        self._first: dict[str, list[JobId]] = {}
        self._unfit: set[JobId] = set()
        self._shown = ["tenant", "queue", "priority", "created_at"]
        if request.is_selective:
            self._shown += ["kind", "label"]
        self._complete: set[str] = set()

    async def choose(self, limit: int, spread: Spread) -> list[JobId]:
        """The next jobs, tenants in turn; reads more of a tenant until its part is known."""
        queues = self._request.queues
        if self._request.tenants is None and (queues is None or len(queues) == 1):
            await self._read_runs(limit, spread)
        else:
            await self._read_tenants(limit)
        while True:
            chosen, asked = share_out(self._first, limit)
            short = {
                tenant: count
                for tenant, count in asked.items()
                if count > len(self._first[tenant]) and tenant not in self._complete
            }
            if not short:
                return chosen
            for tenant, count in short.items():
                await self._read_first(tenant, count, spread)

    def accepts(self, chosen: Collection[JobId]) -> bool:
        """Whether the caller can run all of these, which ``choose`` has returned."""
        return self._unfit.isdisjoint(chosen)

    async def tenants(self) -> AsyncIterator[str]:
        """The tenants that have a due job, in their turns."""
        request = self._request
        if request.tenants is not None:
            for tenant in order_turns(set(request.tenants), request.after_tenant):
                if await self._find({"tenant": tenant}, (), 1):
                    yield tenant
            return
        for after, until in self._turns():
            reached = after
            while found := await self._find(_between(reached, until), [("tenant", 1)], 1):
                reached = found[0]["tenant"]
                yield reached

    async def queues(self, tenant: str) -> AsyncIterator[str]:
        """The queues in which a tenant has a due job, of those asked for."""
        after = ""
        self._index = "due_in_queue"
        while found := await self._find(
            {"tenant": tenant, "queue": {"$gt": after}}, [("queue", 1)], 1
        ):
            after = found[0]["queue"]
            if is_chosen(after, self._request.queues):
                yield after

    async def first_of(
        self, partition: Sequence[str], count: int, without: Sequence[JobId], priority: int | None
    ) -> list[Raw]:
        """The first due jobs of a partition, of one priority or of all."""
        tenant, queue = partition
        where: Raw = {"tenant": tenant, "queue": queue}
        if priority is not None:
            where["priority"] = priority
        if without:
            where["_id"] = {"$nin": list(without)}
        self._index = "due_in_queue"
        if not self._request.is_selective:
            return await self._find(where, ORDER, count)
        found = await self._jobs.aggregate(
            [
                {"$match": {"phase": "due", **where, **_due(self._now)}},
                {"$sort": dict(ORDER)},
                {"$limit": LOOK_AHEAD},
                {"$match": _runnable(self._request)},
                {"$limit": count},
                {"$project": dict.fromkeys(self._shown, 1)},
            ],
            hint=self._index,
            session=self._session,
        )
        return await found.to_list()

    async def _read_runs(self, limit: int, spread: Spread) -> None:
        """The first jobs of up to ``limit`` tenants.

        One query shows everything if little is due. After a tenant with more, the next query
        continues behind that tenant.
        """
        order = [("tenant", 1), *ORDER]
        if self._request.queues is not None:
            order.insert(1, ("queue", 1))
        cut_count = 0
        for after, until in self._turns():
            reached = after
            while len(self._first) < limit:
                length = max(1, spread.window(limit) // (cut_count + 1))
                found = await self._find(_between(reached, until), order, length)
                is_cut = len(found) == length
                self._put_runs(found, limit, spread, is_cut=is_cut)
                if not is_cut or found[-1]["tenant"] == until:
                    break
                reached, cut_count = found[-1]["tenant"], cut_count + 1

    def _put_runs(self, found: Sequence[Raw], limit: int, spread: Spread, *, is_cut: bool) -> None:
        """The jobs of the last tenant may not be all, if the query was cut."""
        for tenant, raws in groupby(found, key=itemgetter("tenant")):
            is_last = is_cut and tenant == found[-1]["tenant"]
            if len(self._first) < limit:
                self._put(tenant, list(raws), limit, spread, is_all=not is_last)

    async def _read_tenants(self, limit: int) -> None:
        async for tenant in self.tenants():
            self._first[tenant] = []
            if len(self._first) == limit:
                return

    async def _read_first(self, tenant: str, count: int, spread: Spread) -> None:
        asked = spread.window(count)
        found = await self._find({"tenant": tenant}, ORDER, asked)
        self._put(tenant, found, count, spread, is_all=len(found) < asked)

    def _put(
        self, tenant: str, raws: Sequence[Raw], limit: int, spread: Spread, *, is_all: bool
    ) -> None:
        if self._request.is_selective:
            self._unfit |= {
                raw["_id"]
                for raw in raws
                if "kind" in raw and not self._request.accepts(raw["kind"], raw.get("label"))
            }
        start = spread.choose_start(limit, [raw["priority"] for raw in raws]) if raws else 0
        self._first[tenant] = [raw["_id"] for raw in raws[start:]]
        if is_all:
            self._complete.add(tenant)

    def _turns(self) -> list[tuple[str, str | None]]:
        """The ranges of tenants in which to look, one after the other."""
        after = self._request.after_tenant
        return [(after, None), ("", after)] if after else [("", None)]

    async def _find(self, where: Raw, order: Sequence[tuple[str, int]], limit: int) -> list[Raw]:
        queues = {} if "queue" in where else _in_queues(self._request.queues)
        found = self._jobs.find(
            {"phase": "due", **where, **queues, **_due(self._now)},
            self._shown,
            sort=list(order) or None,
            limit=limit,
            hint=self._index,
            session=self._session,
        )
        return await found.to_list()


async def take_limited(connection: Connection, request: LeaseRequest, now: datetime) -> list[Job]:
    """Lease under caps or ageing. Leases that count running jobs exclude each other."""
    await mark_due(connection, now)
    if not counts_running(request.caps):
        return await run_async(
            lease_limited(request, now), answer_by(LimitedQueries(connection, now, None))
        )

    async def work(session: Session) -> list[Job]:
        await guard(connection, session, "places")
        queries = LimitedQueries(connection, now, session)
        return await run_async(lease_limited(request, now), answer_by(queries))

    return await connection.transact(work)


async def preview(connection: Connection, request: LeaseRequest, now: datetime) -> LeasePreview:
    """See ``OpenStore.preview_lease``."""
    await mark_due(connection, now)
    return await run_async(preview_lease(request), answer_by(LimitedQueries(connection, now, None)))


class LimitedQueries:
    """Answers the kernel's queries for a lease under limits."""

    def __init__(self, connection: Connection, now: datetime, session: Session | None) -> None:
        self._connection = connection
        self._now = now
        self._session = session

    def _ready(self, request: LeaseRequest) -> ReadySet:
        return ReadySet(self._connection, request, self._now, self._session)

    async def count_running(self, request: LeaseRequest) -> dict[Partition, int]:  # noqa: ARG002 - all are counted
        found = await self._connection.jobs.aggregate(
            RUNNING_COUNTS, hint="surveyed", session=self._session
        )
        return {
            (raw["_id"]["tenant"], raw["_id"]["queue"]): raw["count"]
            for raw in await found.to_list()
        }

    async def find_partitions(
        self, request: LeaseRequest, limit: int, full: Collection[CapScope]
    ) -> list[Partition]:
        closed, found = set(full), list[Partition]()
        tenants: set[str] = set()
        async for tenant in self._ready(request).tenants():
            async for queue in self._ready(request).queues(tenant):
                if closed.isdisjoint(scopes_of(tenant, queue)):
                    found.append((tenant, queue))
                    tenants.add(tenant)
            if len(tenants) == limit:
                break
        return found

    async def find_first(
        self,
        request: LeaseRequest,
        partitions: Sequence[Partition],
        job_count: int,
        passed_over: Sequence[JobId],
    ) -> list[Standing]:
        return [
            _decode_standing(raw)
            for *partition, priority in find_ranks(request, partitions)
            for raw in await self._ready(request).first_of(
                partition, job_count, passed_over, priority
            )
        ]

    async def take_jobs(self, request: LeaseRequest, chosen: Sequence[Candidate]) -> list[Job]:
        ids = [each.job_id for each in chosen]
        return await claim(self._connection, request, ids, self._now, self._session)


RUNNING_COUNTS: list[Raw] = [
    {"$match": {"phase": "running"}},
    {"$group": {"_id": {"tenant": "$tenant", "queue": "$queue"}, "count": {"$sum": 1}}},
]


def _decode_standing(raw: Raw) -> Standing:
    created_at = to_instant(raw["created_at"])
    return Standing(raw["_id"], raw["tenant"], raw["queue"], raw["priority"], created_at)


async def extend(connection: Connection, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Let leases last until then, at least; False for each that is lost."""
    if not held:
        return []
    done = await connection.jobs.bulk_write(_extensions(held, until), ordered=False)
    if done.matched_count == len(set(held)) and not connection.is_routed:
        return [True] * len(held)
    return _answers(held, until, await connection.jobs.find(_named(held), _SHOWN).to_list())


class MongoKeeper:
    """Extends leases from another thread, with a client of its own."""

    def __init__(self, settings: MongoSettings) -> None:
        self._settings = settings
        self._client: MongoClient[Raw] | None = None

    def extend(self, held: Sequence[HeldLease], until: datetime, now: datetime) -> list[bool]:
        """As the store's own; the thread waits for the answer."""
        to_utc(now, "now")
        until = to_utc(until, "until")
        extensions = _extensions(held, until)
        if not held:
            return []
        with translated(self._settings.label):
            if self._client is None:
                self._client = MongoClient(self._settings.url, **options(self._settings))
            jobs = self._client[self._settings.database][JOBS]
            done = jobs.bulk_write(extensions, ordered=False)
            if done.matched_count == len(set(held)) and not self._client.is_mongos:
                return [True] * len(held)
            return _answers(held, until, list(jobs.find(_named(held), _SHOWN)))

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client = None


_SHOWN = ["phase", "last_token", "until"]


def _extensions(held: Sequence[HeldLease], until: datetime) -> list[UpdateOne]:
    return [
        UpdateOne(
            {"_id": each.job_id, "phase": "running", "last_token": each.token},
            {"$max": {"until": to_micros(until)}},
            hint=BY_ID,
        )
        for each in dict.fromkeys(held)
    ]


def _named(held: Sequence[HeldLease]) -> Raw:
    return {"_id": {"$in": sorted({each.job_id for each in held})}}


def _answers(held: Sequence[HeldLease], until: datetime, found: Sequence[Raw]) -> list[bool]:
    """Whether each lease is held, and lasts; a lease that was lost is never held again.

    A mongos counts a job that has just gone to another shard, and was not extended there.
    """
    extended = {
        HeldLease(raw["_id"], raw["last_token"])
        for raw in found
        if raw.get("phase") == "running" and raw["until"] >= to_micros(until)
    }
    return [each in extended for each in held]


def _due(now: datetime) -> Raw:
    """Jobs in the ready set may be due later if a clock was set back."""
    return {"due_at": {"$lte": to_micros(now)}}


def _between(after: str, until: str | None) -> Raw:
    return {"tenant": {"$gt": after} if until is None else {"$gt": after, "$lte": until}}


def _runnable(request: LeaseRequest) -> Raw:
    """Jobs that the caller can run. Jobs of earlier versions do not show their kind."""
    choices = {"kind": request.kinds, "label": request.labels}
    return {field: {"$in": [*names, None]} for field, names in choices.items() if names is not None}


def _in_queues(queues: Collection[str] | None) -> Raw:
    return {} if queues is None else {"queue": {"$in": sorted(queues)}}
