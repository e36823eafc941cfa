"""What is asked about jobs, each by an index named in ``indexes``, and the updates of single jobs.

What has no ``tenant`` is not there yet: a step that may come to nothing has staged it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from pymongo import DeleteOne, UpdateMany, UpdateOne

from rota.jobs import Change, JobFilter, JobId
from rota.stores.mongo.gateway import BY_ID, Query, Raw
from rota.stores.mongo.jobs.rows import (
    LEASE_MARK,
    SETTLE_MARKS,
    encode_attempt,
    move_update,
    to_number,
)
from rota.stores.mongo.pipelines import NOBODY
from rota.stores.mongo.steps.names import JOBS, LOCK, VERSION
from rota.stores.protocol import HeldLease, LeaseRequest

ORDER = (("priority", -1), ("created_at", 1), ("_id", 1))
IDS_AT_ONCE = 500
"""How many ids one query names."""
VALUES_AT_ONCE = 250
"""How many values one query names of a field that is a list, which servers find harder."""
SURVEYED = "surveyed"
"""The index by which jobs are counted lane by lane."""
MARKS_KEPT = 3
"""How often a job may be settled before the first of these calls has looked what became of it."""


def by_ids(ids: Sequence[str], fields: Sequence[str] | None = None) -> Query:
    return Query(JOBS, {"_id": {"$in": list(ids)}}, fields=fields, by=BY_ID)


def by_digests(digests: Collection[str]) -> Query:
    """The jobs that have, or are about to have, one of these identities."""
    return Query(JOBS, {"keys": {"$in": sorted(digests)}}, by="keys")


def dependents_of(ids: Sequence[str], **conditions: Any) -> Query:
    """The jobs that name one of these among their dependencies, by id."""
    where = {"dependencies": {"$in": list(ids)}, **conditions}
    return Query(JOBS, where, [("_id", 1)], by="depending")


def became_due(now: datetime, limit: int) -> Query:
    """Jobs that stand among those due later, and are due."""
    where = {"lane": "later", "due_at": {"$lte": to_number(now)}}
    return Query(JOBS, where, [("due_at", 1), ("_id", 1)], limit, ["_id"], "later")


def promote(ids: Sequence[str], now: datetime) -> UpdateMany:
    """Let jobs join the line; nothing else about them changes."""
    due = {"_id": {"$in": list(ids)}, "lane": "later", "due_at": {"$lte": to_number(now)}}
    return UpdateMany(due, {"$set": {"lane": "due"}}, hint=BY_ID)


def next_tenant(
    now: datetime, after: str, until: str | None, queues: Collection[str] | None
) -> Query:
    """A due job of the next tenant, by code point, after one and up to another."""
    where = {"lane": "due", "tenant": _between(after, until), **_in_queues(queues), **_due(now)}
    return Query(JOBS, where, [("tenant", 1)], 1, ["tenant"], _line(queues))


def first_in_turn(
    now: datetime, after: str, until: str | None, limit: int, queues: Collection[str] | None
) -> Query:
    """Due jobs of the tenants after one and up to another, those of each in their order.

    Of all queues or of one: no index has the jobs of several in this order.
    """
    where = {"lane": "due", "tenant": _between(after, until), **_in_queues(queues), **_due(now)}
    order = [("tenant", 1), *ORDER] if queues is None else [("tenant", 1), ("queue", 1), *ORDER]
    return Query(JOBS, where, order, limit, ["tenant"], _line(queues))


def has_due(now: datetime, tenant: str, queues: Collection[str] | None) -> Query:
    """A due job of a tenant."""
    where = {"lane": "due", "tenant": tenant, **_in_queues(queues), **_due(now)}
    return Query(JOBS, where, limit=1, fields=["tenant"], by=_line(queues))


def next_queue(now: datetime, tenant: str, after: str) -> Query:
    """A due job of a tenant in its next queue, by code point."""
    where = {"lane": "due", "tenant": tenant, "queue": {"$gt": after}, **_due(now)}
    return Query(JOBS, where, [("queue", 1)], 1, ["queue"], "due_in_queue")


def first_due(
    now: datetime,
    tenant: str,
    limit: int,
    queues: Collection[str] | None,
    priority: int | None = None,
) -> Query:
    """The first due jobs of a tenant, in their order."""
    where = {"lane": "due", "tenant": tenant, **_in_queues(queues), **_due(now)}
    if priority is not None:
        where["priority"] = priority
    return Query(JOBS, where, ORDER, limit, by=_line(queues))


def claim(ids: Sequence[str], mark: str, request: LeaseRequest, now: datetime) -> UpdateMany:
    """Lease those of the jobs that are still to be had; each bears the mark of this call.

    Every job's token grows by one, in the one write that makes it this worker's.
    """
    free = {"_id": {"$in": list(ids)}, "lane": "due", LOCK: NOBODY}
    leased = {
        "status": "RUNNING",
        "lane": "running",
        "worker": request.worker,
        "taken_at": to_number(now),
        "until": to_number(now + request.lease_for),
        "updated_at": to_number(now),
        LEASE_MARK: mark,
    }
    return UpdateMany(
        {**free, **_in_queues(request.queues), **_due(now)},
        {"$set": leased, "$inc": {"last_token": 1, VERSION: 1}},
        hint=BY_ID,
    )


def set_aside(ids: Sequence[str]) -> UpdateMany:
    """Keep what cannot be read where nobody comes across it, with all that is known of it."""
    gone = dict.fromkeys(("until", "ended_at", LEASE_MARK, SETTLE_MARKS), "")
    aside = {"lane": "damaged", "status": "DAMAGED"}
    return UpdateMany({"_id": {"$in": list(ids)}, LOCK: NOBODY}, {"$set": aside, "$unset": gone})


def extend(held: HeldLease, until: datetime) -> UpdateOne:
    """Let a lease last until then, at least."""
    return UpdateOne(
        {**_held(held), LOCK: NOBODY},
        {"$max": {"until": to_number(until)}, "$inc": {VERSION: 1}},
        hint=BY_ID,
    )


def _held(held: HeldLease) -> dict[str, Any]:
    return {"_id": held.job_id, "lane": "running", "last_token": held.token}


def settle(change: Change, mark: str, now: datetime) -> UpdateOne:
    """Write a change of one job, if it holds and nobody else is concerned."""
    update = move_update(change.job, now)
    update["$push"] = {SETTLE_MARKS: {"$each": [mark], "$slice": -MARKS_KEPT}}
    if change.attempt is not None:
        update["$push"]["attempts"] = encode_attempt(change.attempt)
    return UpdateOne(_current(change, now), update, hint=BY_ID)


def settle_and_remove(change: Change, now: datetime) -> DeleteOne:
    """As ``settle``, for a job that is not kept and itself depends on none."""
    alone = {**_current(change, now), "dependencies": {"$exists": False}}
    return DeleteOne(alone, hint=BY_ID)


def _current(change: Change, now: datetime) -> dict[str, Any]:
    """As ``rota.stores.kernel.settlement.is_current`` has it."""
    where: dict[str, Any] = {
        "_id": change.job.id,
        "tenant": change.job.tenant,
        "status": str(change.expected_status),
        "last_token": change.expected_token,
        LOCK: NOBODY,
    }
    if change.job.status.is_terminal:
        where["is_awaited"] = {"$exists": False}
    if change.attempt is not None and change.attempt.outcome == "lost":
        where["until"] = {"$lt": to_number(now)}
    return where


def remove_at(raw_id: str, version: int) -> DeleteOne:
    """Remove a job that is still at a version."""
    return DeleteOne({"_id": raw_id, VERSION: version, LOCK: NOBODY})


def expired(now: datetime, limit: int, after: tuple[datetime, JobId] | None) -> Query:
    """Jobs whose lease has run out, the longest ago first."""
    where: dict[str, Any] = {"lane": "running", "until": {"$lt": to_number(now)}}
    if after is not None:
        until, job_id = to_number(after[0]), after[1]
        where = {
            "lane": "running",
            "until": {"$gte": until, "$lt": to_number(now)},
            "$or": [{"until": {"$gt": until}}, {"until": until, "_id": {"$gt": job_id}}],
        }
    return Query(JOBS, where, [("until", 1), ("_id", 1)], limit, by="leased")


def any_due(
    now: datetime, queues: Collection[str] | None, tenants: Collection[str] | None
) -> Query:
    """A job that stands in line and is due."""
    where = {"lane": "due", **_in_queues(queues), **_of_tenants(tenants), **_due(now)}
    return Query(JOBS, where, limit=1, fields=["due_at"], by=_line(queues))


def next_due(lane: str, queues: Collection[str] | None, tenants: Collection[str] | None) -> Query:
    """The job of a lane that is due first."""
    where = {"lane": lane, **_in_queues(queues), **_of_tenants(tenants)}
    index = None  # those in line are asked only when a clock has been set back
    if lane == "later":
        index = "later" if queues is None else "later_in_queue"
    return Query(JOBS, where, [("due_at", 1)], 1, ["due_at"], index)


def list_page(wanted: JobFilter, last: tuple[datetime, JobId] | None, limit: int) -> Query:
    """A page of a tenant's jobs, the newest first."""
    where = matching(wanted)
    if last is not None:
        created_at, job_id = to_number(last[0]), last[1]
        where["$or"] = [
            {"created_at": {"$lt": created_at}},
            {"created_at": created_at, "_id": {"$gt": job_id}},
        ]
        where.setdefault("created_at", {}).setdefault("$lte", created_at)
    return Query(JOBS, where, [("created_at", -1), ("_id", 1)], limit, by=_list_of(wanted))


def matching(wanted: JobFilter) -> dict[str, Any]:
    """As ``JobFilter.accepts``."""
    where: dict[str, Any] = {"tenant": wanted.tenant}
    if wanted.status is not None:
        where["status"] = str(wanted.status)
    if wanted.queue is not None:
        where["queue"] = wanted.queue
    if wanted.is_recurring is not None:
        where["is_recurring"] = True if wanted.is_recurring else {"$exists": False}
    priority = _range(wanted.priority_min, "$lte", wanted.priority_max)
    created = _range(_number(wanted.created_after), "$lt", _number(wanted.created_before))
    if priority:
        where["priority"] = priority
    if created:
        where["created_at"] = created
    return where


def ended(before: datetime, limit: int) -> Query:
    """Jobs on which none depends that ended before then, the longest ago first."""
    where = {"ended_at": {"$lt": to_number(before)}}
    return Query(JOBS, where, [("ended_at", 1), ("_id", 1)], limit, by="prunable")


def count_running() -> list[Raw]:
    """How many jobs run, by tenant and queue."""
    return [
        {"$match": {"lane": "running"}},
        {"$group": {"_id": {"tenant": "$tenant", "queue": "$queue"}, "count": {"$sum": 1}}},
    ]


def survey(now: datetime, tenant: str | None) -> list[Raw]:
    """How many jobs of each lane there are in each queue, and which is due first."""
    moment = to_number(now)
    is_due = {"$lte": ["$due_at", moment]}
    is_stalled = {"$lt": ["$until", moment]}
    lanes: dict[str, Any] = {"lane": {"$in": ["due", "later", "running", "dead"]}}
    if tenant is not None:
        lanes["tenant"] = tenant
    return [
        {"$match": lanes},
        {
            "$group": {
                "_id": {"queue": "$queue", "lane": "$lane"},
                "count": {"$sum": 1},
                "due_count": {"$sum": {"$cond": [is_due, 1, 0]}},
                "stalled_count": {"$sum": {"$cond": [is_stalled, 1, 0]}},
                "first_due_at": {"$min": "$due_at"},
            }
        },
    ]


def _number(instant: datetime | None) -> int | None:
    return None if instant is None else to_number(instant)


def _range(low: int | None, below: str, high: int | None) -> dict[str, int]:
    found = {} if low is None else {"$gte": low}
    return found if high is None else {**found, below: high}


def _due(now: datetime) -> dict[str, Any]:
    """Also of those that stand in line: a clock may have been set back."""
    return {"due_at": {"$lte": to_number(now)}}


def _between(after: str, until: str | None) -> dict[str, Any]:
    return {"$gt": after} if until is None else {"$gt": after, "$lte": until}


def _line(queues: Collection[str] | None) -> str:
    """The index of those in line, all of them or those of some queues."""
    return "due" if queues is None else "due_in_queue"


def _list_of(wanted: JobFilter) -> str:
    """The index that has a tenant's jobs in the order of their making, as many as it can."""
    if wanted.status is None:
        return "listed"
    return "recurring" if wanted.is_recurring else "listed_by_status"


def _in_queues(queues: Collection[str] | None) -> dict[str, Any]:
    return {} if queues is None else {"queue": {"$in": sorted(queues)}}


def _of_tenants(tenants: Collection[str] | None) -> dict[str, Any]:
    """All tenants are a range as well: by it the server skips from one queue to the next."""
    return {"tenant": {"$gt": ""} if tenants is None else {"$in": sorted(tenants)}}
