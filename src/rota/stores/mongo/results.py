"""The results of jobs, in a collection of their own.

The id of a result is that of its job, and its token that of the lease which wrote it. A result is
written before its job is completed, and counts only if the completed job has the same token and
says that it has a result. So a result appears in one step with the completion, without a
transaction.
"""

from collections.abc import Mapping, Sequence

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from rota.jobs import Change, JobId, JobStatus
from rota.stores.mongo.connection import BY_ID, Connection, Raw, is_duplicate


async def keep(connection: Connection, changes: Sequence[Change]) -> None:
    """Write the results of changes that are about to complete their jobs.

    A result of an earlier lease is replaced; one of a later lease stays.
    """
    raws = [
        {"_id": each.job_id, "token": each.expected_token, "body": each.result}
        for each in changes
        if each.result is not None
    ]
    if not raws:
        return
    try:
        await connection.results.insert_many(raws, ordered=False)
    except BulkWriteError as error:
        if not is_duplicate(error):
            raise
        existing = [raws[each["index"]] for each in error.details["writeErrors"]]
        replaced = [_replace_earlier(raw) for raw in existing]
        await connection.results.bulk_write(replaced, ordered=False)


def _replace_earlier(raw: Raw) -> UpdateOne:
    earlier = {"_id": raw["_id"], "token": {"$lt": raw["token"]}}
    return UpdateOne(earlier, {"$set": {"token": raw["token"], "body": raw["body"]}})


async def drop_stale(connection: Connection, changes: Sequence[Change]) -> None:
    """Remove the results of changes that were stale, unless they were written by an earlier call.

    A token is given to one lease only, so a lease that is lost never completes its job.
    """
    tokens = {each.job_id: each.expected_token for each in changes if each.result is not None}
    if tokens:
        written = await read_tokens(connection, {"_id": {"$in": sorted(tokens)}})
        lost = [job_id for job_id, token in tokens.items() if written.get(job_id) != token]
        where = [{"_id": job_id, "token": tokens[job_id]} for job_id in lost]
        if where:
            await connection.results.delete_many({"$or": where})


async def read_bodies(connection: Connection, tokens: Mapping[JobId, int]) -> dict[JobId, bytes]:
    """The results of jobs that were completed under these tokens."""
    if not tokens:
        return {}
    found = await connection.results.find({"_id": {"$in": sorted(tokens)}}).to_list()
    return {raw["_id"]: bytes(raw["body"]) for raw in found if raw["token"] == tokens[raw["_id"]]}


async def read_tokens(connection: Connection, where: Raw) -> dict[JobId, int]:
    """The tokens under which jobs were completed that have a result."""
    completed = {**where, "status": str(JobStatus.COMPLETED), "has_result": True}
    found = await connection.jobs.find(completed, ["last_token"], hint=BY_ID).to_list()
    return {raw["_id"]: raw["last_token"] for raw in found}
