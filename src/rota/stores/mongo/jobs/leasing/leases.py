"""``lease`` and ``extend``: who gets which job, and for how long."""

from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId

from rota.jobs import Job, JobId
from rota.stores.mongo.gateway import Gateway, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.leasing.line import choose_in_turn
from rota.stores.mongo.jobs.rows import LEASE_MARK, decode_job
from rota.stores.mongo.jobs.shelf import set_damaged_aside
from rota.stores.mongo.steps.names import JOBS
from rota.stores.mongo.steps.recovery import clear_for_writing
from rota.stores.protocol import HeldLease, LeaseRequest

MOST_PROMOTED = 500
"""How many jobs that have become due join the line with each lease."""


async def lease_next(gateway: Gateway, request: LeaseRequest, now: datetime) -> list[Job]:
    """The next jobs, tenants in turn; each is leased by one write that only one caller can win."""
    await promote_due(gateway, now)
    taken: list[Job] = []
    while wanted := request.limit - len(taken):
        chosen = await choose_in_turn(gateway, request, wanted, now)
        if not chosen:
            break
        leased = await claim_jobs(gateway, request, chosen, now)
        taken += leased
        if len(leased) == len(chosen) < wanted:  # there were no more, and nobody was quicker
            break
    return taken


async def promote_due(gateway: Gateway, now: datetime) -> None:
    """Let jobs that have become due join the line."""
    found = await gateway.find(queries.became_due(now, MOST_PROMOTED))
    if found:
        await gateway.write(JOBS, [queries.promote([raw["_id"] for raw in found], now)])


async def claim_jobs(
    gateway: Gateway, request: LeaseRequest, chosen: Sequence[JobId], now: datetime
) -> list[Job]:
    """Those of the jobs that this caller got, in the same order.

    Those that others lay claim to are cleared, so that they can be had the next time.
    """
    mark = str(ObjectId())
    places = {job_id: place for place, job_id in enumerate(chosen)}
    found: list[Raw] = []
    for start in range(0, len(chosen), queries.IDS_AT_ONCE):
        ids = chosen[start : start + queries.IDS_AT_ONCE]
        await gateway.write(JOBS, [queries.claim(ids, mark, request, now)])
        found += await gateway.find(queries.by_ids(ids))
    mine = [raw for raw in found if raw.get(LEASE_MARK) == mark and raw.get("lane") == "running"]
    if len(mine) < len(chosen):
        await clear_for_writing(gateway, found)
    readable = await set_damaged_aside(gateway, mine)
    return sorted(map(decode_job, readable), key=lambda job: places[job.id])


async def extend_leases(gateway: Gateway, held: Sequence[HeldLease], until: datetime) -> list[bool]:
    """Let leases last longer; False for each that is lost."""
    answers: dict[HeldLease, bool] = {}
    left = list(dict.fromkeys(held))
    while left:
        operations = [queries.extend(each, until) for each in left]
        written = await gateway.write(JOBS, operations)
        if written.matched_count == len(left):
            answers |= dict.fromkeys(left, True)
            break
        left = await _sort_out(gateway, left, answers)
    return [answers[each] for each in held]


async def _sort_out(
    gateway: Gateway, left: Sequence[HeldLease], answers: dict[HeldLease, bool]
) -> list[HeldLease]:
    """Those that are still held while somebody lays claim to their jobs, which is cleared."""
    raws: dict[JobId, Raw] = {}
    ids = sorted({each.job_id for each in left})
    for start in range(0, len(ids), queries.IDS_AT_ONCE):
        found = await gateway.find(queries.by_ids(ids[start : start + queries.IDS_AT_ONCE]))
        raws |= {raw["_id"]: raw for raw in found}
    unclear: list[HeldLease] = []
    for each in left:
        raw = raws.get(each.job_id, {})
        is_held = raw.get("lane") == "running" and raw.get("last_token") == each.token
        if is_held and "lock" in raw:
            unclear.append(each)
        else:
            answers[each] = is_held
    await clear_for_writing(gateway, (raws[each.job_id] for each in unclear))
    return unclear
