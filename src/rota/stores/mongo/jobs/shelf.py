"""Jobs read in order to be written: as they are, with nobody else laying claim to them."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from rota.errors import JobNotFoundError, StoreUnavailableError
from rota.jobs import JobId
from rota.stores.mongo.gateway import Gateway, Query, Raw
from rota.stores.mongo.jobs import queries
from rota.stores.mongo.jobs.rows import Kept, decode_kept, is_damaged
from rota.stores.mongo.steps.names import JOBS, VERSION
from rota.stores.mongo.steps.recovery import clear_for_writing
from rota.stores.mongo.steps.step import StagedWrite, write_together
from rota.stores.mongo.translation import NOTHING_WRITTEN

Answer = TypeVar("Answer")

TRY_COUNT = 200
"""How often something is decided anew because others have written in between."""


async def find_free(gateway: Gateway, query: Query) -> list[Raw]:
    """What a query finds, once nobody lays claim to any of it."""
    while True:
        found = await gateway.find(query)
        if await clear_for_writing(gateway, found):
            return [raw for raw in found if VERSION in raw]


async def set_damaged_aside(gateway: Gateway, found: Sequence[Raw]) -> list[Raw]:
    """Those of the documents that can be read; nobody comes across the others any more."""
    damaged = [raw["_id"] for raw in found if is_damaged(raw)]
    if not damaged:
        return list(found)
    await gateway.write(JOBS, [queries.set_aside(damaged)])
    return [raw for raw in found if raw["_id"] not in damaged]


async def read_kept(gateway: Gateway, job_ids: Iterable[JobId]) -> dict[JobId, Kept]:
    """The jobs that exist among these; DamagedJobError when one cannot be read."""
    wanted = sorted(set(job_ids))
    kept: dict[JobId, Kept] = {}
    for start in range(0, len(wanted), queries.IDS_AT_ONCE):
        ids = wanted[start : start + queries.IDS_AT_ONCE]
        for raw in await find_free(gateway, queries.by_ids(ids)):
            kept[raw["_id"]] = decode_kept(raw)
    return kept


async def read_one(gateway: Gateway, tenant: str, job_id: JobId) -> Kept:
    """The tenant's job; JobNotFoundError when there is none."""
    found = (await read_kept(gateway, [job_id])).get(job_id)
    if found is None or found.job.tenant != tenant:
        raise JobNotFoundError(job_id)
    return found


async def write_as_planned(
    gateway: Gateway,
    plan: Callable[[], Awaitable[tuple[Sequence[StagedWrite], Answer]]],
) -> Answer:
    """Write what was planned, together; when somebody was quicker, plan anew."""
    for _ in range(TRY_COUNT):
        writes, answer = await plan()
        if not writes or await write_together(gateway, writes):
            return answer
    raise too_busy()


def too_busy() -> StoreUnavailableError:
    """Others were quicker, again and again."""
    return StoreUnavailableError(
        "The store is not available: others write the same jobs all the time",
        {"reason": "busy", "outcome": NOTHING_WRITTEN},
    )
