"""Native path of ``apply``: jobs that only complete, many in one update.

Each document is written on its own, outside a transaction: in a transaction the server checks every
index anew for every document, at three times the cost. A call that is interrupted may have written
some of its changes; the caller submits all of them again.

Behind a mongos each tenant has an update of its own. One that goes to several shards would be
carried out wherever a job is, even where it no longer belongs because its shard is changing.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo import UpdateMany

from rota.jobs import Change, JobId, JobStatus
from rota.stores.kernel.settlement import find_plain
from rota.stores.mongo import results
from rota.stores.mongo.connection import BY_ID, Connection, Raw
from rota.stores.mongo.rows import MOVABLE, encode_attempt, encode_move


class Completed(NamedTuple):
    """The jobs that were completed; other processes listen for the end of those ``watched``."""

    job_ids: set[JobId]
    watched: set[JobId]


async def complete(connection: Connection, changes: Sequence[Change], now: datetime) -> Completed:
    """Write the changes that only complete a job no other job depends on.

    The kernel decides about the others.
    """
    plain = find_plain(changes)
    if not plain:
        return Completed(set(), set())
    await results.keep(connection, plain)
    done = await _write(connection, plain, now, {"watched": {"$exists": False}})
    if len(done) == len(plain):
        return Completed(done, set())
    left = sorted(change.job_id for change in plain if change.job_id not in done)
    where = {"_id": {"$in": left}, "watched": True}
    found = await connection.jobs.find(where, ["_id"], hint=BY_ID).to_list()
    watched = {raw["_id"] for raw in found}
    heard = await _write(connection, [each for each in plain if each.job_id in watched], now, {})
    return Completed(done | heard, heard)


async def _write(
    connection: Connection, changes: Sequence[Change], now: datetime, condition: Raw
) -> set[JobId]:
    """Complete those jobs that meet the condition and are still held; which they were."""
    if not changes:
        return set()
    mark, ids = ObjectId(), {change.job_id for change in changes}
    groups: defaultdict[tuple[frozenset[str], str], list[_Move]] = defaultdict(list)
    for change in changes:
        values = _values(change, now)
        tenant = change.job.tenant if connection.is_routed else ""
        groups[frozenset(values), tenant].append(_Move(change, values))
    updates = [
        _update(group, mark, condition | ({"tenant": tenant} if tenant else {}))
        for (_, tenant), group in groups.items()
    ]
    if await connection.update_marked(updates) == len(changes):
        return ids
    marked = {"_id": {"$in": sorted(ids)}, "mark": mark}
    found = await connection.jobs.find(marked, ["_id"], hint=BY_ID).to_list()
    return {raw["_id"] for raw in found}


class _Move(NamedTuple):
    change: Change
    values: Raw


def _values(change: Change, now: datetime) -> Raw:
    values = encode_move(change.job, now)
    if change.result is not None:
        values["has_result"] = True
    if change.attempt is not None:
        values["attempts"] = [encode_attempt(change.attempt)]
    return values


def _update(group: Sequence[_Move], mark: ObjectId, condition: Raw) -> UpdateMany:
    """One update for all jobs that get and lose the same fields."""
    ids = [move.change.job_id for move in group]
    held = [[move.change.job.tenant, move.change.expected_token] for move in group]
    first = group[0].values
    shared = {name for name in first if all(move.values[name] == first[name] for move in group)}
    shared.discard("attempts")
    own = [{name: one[name] for name in one if name not in shared} for _, one in group]
    current = {
        "_id": {"$in": ids},
        "status": str(JobStatus.RUNNING),
        "awaited_count": {"$exists": False},
        "$expr": {"$eq": [["$tenant", "$last_token"], _of_each(ids, held)]},
        **condition,
    }
    same = {"$literal": {"mark": mark, **{name: first[name] for name in shared}}}
    parts = ["$$ROOT", same, _of_each(ids, own)] if any(own) else ["$$ROOT", same]
    if "attempts" in first:
        new = _of_each(ids, [move.values["attempts"] for move in group])
        before = {"$ifNull": ["$attempts", []]}
        parts.append({"attempts": {"$concatArrays": [before, new]}})
    lost = [name for name in MOVABLE if name not in first]
    stages: list[Raw] = [{"$replaceWith": {"$mergeObjects": parts}}, {"$unset": lost}]
    return UpdateMany(current, stages, hint=BY_ID)


def _of_each(ids: Sequence[JobId], values: Sequence[Any]) -> Raw:
    """The value of the document in hand."""
    place = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
    return {"$arrayElemAt": [{"$literal": values}, place]}
