"""Native path of ``apply``: jobs that only complete, many in one update.

Each document is written on its own, outside a transaction: in a transaction the server checks every
index anew for every document, at three times the cost. A call that is interrupted may have written
some of its changes; the caller submits all of them again.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import UpdateMany

from rota.jobs import Change, JobId, JobStatus
from rota.stores.mongo.connection import Connection, Raw
from rota.stores.mongo.rows import MOVABLE, encode_move
from rota.stores.mongo.unit import BY_ID


async def complete(
    connection: Connection, changes: Sequence[Change], now: datetime
) -> set[JobId]:
    """Write the changes that only complete a job no other job depends on; which were written.

    The kernel decides about the others.
    """
    plain = [change for change in changes if is_plain(change)]
    if not plain or len({change.job_id for change in changes}) < len(changes):
        return set()
    mark, ids = ObjectId(), {change.job_id for change in plain}
    matched_count = await connection.update_marked(_updates(plain, mark, now))
    if matched_count == len(plain):
        return ids
    marked = {"_id": {"$in": sorted(ids)}, "mark": mark}
    found = await connection.jobs.find(marked, ["_id"], hint=BY_ID).to_list()
    return {raw["_id"] for raw in found}


def is_plain(change: Change) -> bool:
    """Whether the change only completes its job."""
    is_completion = change.expected_status is JobStatus.RUNNING and (
        change.job.status is JobStatus.COMPLETED
    )
    has_more = change.attempt is not None or change.successor is not None or change.is_removed
    return is_completion and not has_more


def _updates(changes: Sequence[Change], mark: ObjectId, now: datetime) -> list[UpdateMany]:
    """One update for all jobs that get and lose the same fields: most often one."""
    groups: defaultdict[frozenset[str], list[tuple[Change, Raw]]] = defaultdict(list)
    for change in changes:
        values = encode_move(change.job, now)
        groups[frozenset(values)].append((change, values))
    return [_update(group, mark) for group in groups.values()]


def _update(group: Sequence[tuple[Change, Raw]], mark: ObjectId) -> UpdateMany:
    ids = [change.job_id for change, _ in group]
    held = [[change.job.tenant, change.expected_token] for change, _ in group]
    first = group[0][1]
    shared = {name for name in first if all(values[name] == first[name] for _, values in group)}
    own = [{name: values[name] for name in values if name not in shared} for _, values in group]
    current = {
        "_id": {"$in": ids},
        "status": str(JobStatus.RUNNING),
        "awaited_count": {"$exists": False},
        "$expr": {"$eq": [["$tenant", "$last_token"], _of_each(ids, held)]},
    }
    same = {"$literal": {"mark": mark, **{name: first[name] for name in shared}}}
    parts = ["$$ROOT", same, _of_each(ids, own)] if any(own) else ["$$ROOT", same]
    stages: list[Raw] = [{"$replaceWith": {"$mergeObjects": parts}}]
    if lost := [name for name in MOVABLE if name not in first]:
        stages.append({"$unset": lost})
    return UpdateMany(current, stages, hint=BY_ID)


def _of_each(ids: Sequence[JobId], values: Sequence[Any]) -> Raw:
    """The value of the document in hand."""
    place = {"$indexOfArray": [{"$literal": ids}, "$_id"]}
    return {"$arrayElemAt": [{"$literal": values}, place]}
