"""The kernel's queries and writes inside one transaction.

Of two transactions that write the same document, one fails and runs again. So a plan is safe if
whatever may invalidate its reads also writes a document that the plan writes.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from pymongo import DeleteMany, InsertOne, UpdateMany, UpdateOne

from rota.jobs import Attempt, Job, JobId, JobStatus
from rota.stores.kernel.identity import Identity
from rota.stores.kernel.records import seal
from rota.stores.kernel.unit import (
    Ended,
    NewJob,
    Placed,
    Stored,
    Waiting,
    Writes,
)
from rota.stores.mongo.connection import BY_ID, Connection, Raw, Session
from rota.stores.mongo.rows import (
    amend_update,
    decode_job,
    decode_readable,
    digest,
    encode_attempt,
    encode_job,
    move_update,
)
from rota.stores.protocol import EndedPlace
from rota.stores.rows import to_instant, to_micros

SET_ASIDE = "DAMAGED"
"""The status of a job that cannot be read."""
WITHOUT_ATTEMPTS = {"attempts": 0}

_WAITING = ("tenant", "queue", "due_at", "open_count", "on_parent_failure", "watched")


class JobUnit:
    """Answers the queries of one plan, and writes what it decides."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._jobs = connection.jobs
        self._session = session
        self.watched: set[JobId] = set()
        """The jobs among those read for whose end other processes listen."""

    async def commit(self, writes: Writes) -> None:
        """Write what a plan has decided, as one part of the transaction."""
        operations = make_operations(writes)
        if operations:
            await self._jobs.bulk_write(operations, ordered=False, session=self._session)
        kept = self._connection.results
        if writes.results:
            await kept.bulk_write(_keep_results(writes), ordered=False, session=self._session)
        if writes.removed:
            await kept.delete_many(_by_ids(writes.removed), session=self._session)
        if writes.without_results:
            await kept.delete_many(_by_ids(writes.without_results), session=self._session)

    async def _find(
        self, where: Raw, index: str, fields: Sequence[str] | Mapping[str, Any] | None = None
    ) -> list[Raw]:
        found = self._jobs.find(where, fields, hint=index, session=self._session)
        return await found.to_list()

    async def read_jobs(
        self, job_ids: Collection[JobId], *, skips_damaged: bool
    ) -> dict[JobId, Stored]:
        found = await self._find(_by_ids(job_ids), BY_ID, WITHOUT_ATTEMPTS)
        raws = [raw for raw in found if raw["status"] != SET_ASIDE]
        jobs = decode_readable(raws) if skips_damaged else [decode_job(raw) for raw in raws]
        awaited = {raw["_id"] for raw in raws if "awaited_count" in raw}
        self.watched |= {raw["_id"] for raw in raws if "watched" in raw}
        return {job.id: Stored(job, job.id in awaited) for job in jobs}

    async def read_statuses(self, job_ids: Collection[JobId]) -> dict[JobId, str]:
        found = await self._find(_by_ids(job_ids), BY_ID, ["status"])
        return {raw["_id"]: raw["status"] for raw in found}

    async def read_twins(self, identities: Collection[Identity]) -> list[Job]:
        where = {
            "tenant": {"$in": sorted({each.tenant for each in identities})},
            "key": {"$in": sorted(map(digest, identities))},
        }
        return decode_readable(await self._find(where, "keys", WITHOUT_ATTEMPTS))

    async def read_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Waiting]:
        """Each level of dependents is one query.

        Of its dependencies a job shows only those of that level: it may have ten thousand others.
        """
        reached, asked = sorted(parents), set(parents)
        found: dict[JobId, Raw] = {}
        by_child: defaultdict[JobId, set[JobId]] = defaultdict(set)
        while reached:
            where = {"dependencies": {"$in": reached}, "status": str(JobStatus.PENDING)}
            near = {"$setIntersection": ["$dependencies", {"$literal": reached}]}
            only = {"$literal": reached}  # which needs no look at the others
            fields = {**dict.fromkeys(_WAITING, 1), "near": near if reached[1:] else only}
            for raw in await self._find(where, "depending", fields):
                found[raw["_id"]] = raw
                by_child[raw["_id"]].update(raw["near"])
            reached = sorted(found.keys() - asked) if is_deep else []
            asked.update(reached)
        self.watched |= {job_id for job_id, raw in found.items() if "watched" in raw}
        return [_decode_waiting(raw, by_child[job_id]) for job_id, raw in found.items()]

    async def read_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, tuple[JobId, ...]]:
        """Each level is one query. Two transactions that do this conflict: both write one guard."""
        await guard(self._connection, self._session, "dependencies")
        found: dict[JobId, tuple[JobId, ...]] = {}
        reached = set(job_ids)
        while reached:
            raws = await self._find(_by_ids(reached), BY_ID, ["dependencies"])
            new = {raw["_id"]: tuple(raw.get("dependencies", ())) for raw in raws}
            found |= new
            reached = {each for parents in new.values() for each in parents} - found.keys()
        return found

    async def read_dependents(self, job_ids: Collection[JobId]) -> dict[JobId, set[JobId]]:
        named = set(job_ids)
        where = {"dependencies": {"$in": sorted(named)}}
        dependents: defaultdict[JobId, set[JobId]] = defaultdict(set)
        for raw in await self._find(where, "depending", ["dependencies"]):
            for parent in named.intersection(raw["dependencies"]):
                dependents[parent].add(raw["_id"])
        return dependents

    async def read_ended(self, before: datetime, limit: int, after: EndedPlace) -> list[Ended]:
        found: list[Ended] = []
        start = to_micros(after.ended_at)
        where = {
            "ended_at": {"$lt": to_micros(before), "$gte": start},
            "$or": [{"ended_at": {"$gt": start}}, {"_id": {"$gt": after.job_id}}],
        }
        fields = ["ended_at", "dependencies", "awaited_count"]
        cursor = self._jobs.find(where, fields, hint="prunable", session=self._session)
        cursor.sort([("ended_at", 1), ("_id", 1)]).batch_size(limit)
        async with cursor as raws:
            while len(found) < limit:
                some = await raws.to_list(limit)
                if not some:
                    break
                found += await self._without_dependents(some)
        return found[:limit]

    async def _without_dependents(self, raws: Sequence[Raw]) -> list[Ended]:
        awaited = [raw["_id"] for raw in raws if "awaited_count" in raw]
        needed = await self.read_dependents(awaited) if awaited else {}
        return [
            Ended(to_instant(raw["ended_at"]), raw["_id"], tuple(raw.get("dependencies", ())))
            for raw in raws
            if raw["_id"] not in needed
        ]


def make_operations(
    writes: Writes,
) -> "list[InsertOne[Raw] | UpdateOne | UpdateMany | DeleteMany]":
    """The writes as operations on different documents, in any order."""
    attempts: defaultdict[JobId, list[Attempt]] = defaultdict(list)
    for attempt in writes.attempts:
        attempts[attempt.job_id].append(attempt)
    now = writes.now
    inserts = {
        job_id: encode_new(new, now, attempts.get(job_id, ())) for job_id, new in writes.new.items()
    }
    updates = {
        job_id: move_update(job, now, attempts.get(job_id, ()))
        for job_id, job in writes.moved.items()
    }
    for job_id, amended in writes.amended.items():
        updates[job_id] = amend_update(amended.job, now)
        if amended.open_count is not None:
            updates[job_id]["$set"]["open_count"] = amended.open_count
    updates |= {job_id: _place_update(placed, now) for job_id, placed in writes.placed.items()}
    for job_id in writes.results:
        (inserts.get(job_id) or updates[job_id]["$set"])["has_result"] = True
    operations: list[Any] = [InsertOne(raw) for raw in inserts.values()]
    operations += [UpdateOne({"_id": job_id}, update) for job_id, update in updates.items()]
    if writes.awaited:
        operations.append(UpdateMany(_by_ids(writes.awaited), {"$inc": {"awaited_count": 1}}))
    operations += _strip(writes)
    if writes.removed:
        operations.append(DeleteMany(_by_ids(writes.removed)))
    return operations


def _strip(writes: Writes) -> list[UpdateMany]:
    """Jobs that have ended lose their results, or their attempts."""
    bare = {"has_result": writes.without_results, "attempts": writes.without_attempts}
    return [
        UpdateMany(_by_ids(job_ids), {"$unset": {field: ""}})
        for field, job_ids in bare.items()
        if job_ids
    ]


def encode_new(new: NewJob, now: datetime, attempts: Sequence[Attempt] = ()) -> Raw:
    """The document of a new job."""
    raw = encode_job(new.job, now)
    if new.unreadable is not None:
        raw |= {"status": SET_ASIDE, "phase": "damaged", "body": seal(new.unreadable)}
    if new.job.dependencies:
        raw["open_count"] = new.open_count
    if new.is_awaited:
        raw["awaited_count"] = 1
    if attempts:
        raw["attempts"] = [encode_attempt(each) for each in attempts]
    return raw


def _keep_results(writes: Writes) -> list[UpdateOne]:
    jobs = writes.moved | {job_id: new.job for job_id, new in writes.new.items()}
    return [
        UpdateOne(
            {"_id": job_id},
            {"$set": {"token": jobs[job_id].last_token, "body": body}},
            upsert=True,
        )
        for job_id, body in writes.results.items()
    ]


async def guard(connection: Connection, session: Session, name: str) -> None:
    """Conflict with every other transaction that takes the same guard."""
    update = {"$inc": {"version": 1}, "$setOnInsert": {"body": b""}}
    await connection.documents.update_one({"_id": name}, update, upsert=True, session=session)


def _place_update(placed: Placed, now: datetime) -> Raw:
    fields: Raw = {"open_count": placed.open_count}
    if placed.status is not JobStatus.PENDING:
        fields |= {"status": str(placed.status), "updated_at": to_micros(now)}
    if placed.status is JobStatus.READY:
        fields["phase"] = "due" if placed.waiting.due_at <= now else "later"
    if placed.status.is_terminal:
        fields["ended_at"] = to_micros(now)
    if placed.ending is not None:
        fields |= {"ending": str(placed.ending), "last_error": placed.error}
    return {"$set": fields}


def _decode_waiting(raw: Raw, parents: Collection[JobId]) -> Waiting:
    return Waiting(
        job_id=raw["_id"],
        tenant=raw["tenant"],
        queue=raw["queue"],
        due_at=to_instant(raw["due_at"]),
        open_count=raw["open_count"],
        parents=tuple(parents),
        on_parent_failure=raw.get("on_parent_failure", "block"),
    )


def _by_ids(job_ids: Collection[JobId]) -> Raw:
    return {"_id": {"$in": sorted(job_ids)}}
