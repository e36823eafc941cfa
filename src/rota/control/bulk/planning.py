"""What would be done to which jobs, remembered until it is done or too old.

A plan is kept in the store with the ids of its jobs: what is done is what was shown, however the
jobs have moved since, and whichever process is asked to do it.
"""

from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from rota.control.search import JobQuery, SearchPage, search_jobs
from rota.control.surroundings import ControlStore
from rota.errors import InvalidInputError, NotFoundError, StaleVersionError
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.listing.search import HIGHEST_LIMIT
from rota.rail.dead_letters.replacement import is_dead
from rota.rail.surroundings import Surroundings
from rota.stores.protocol import DocumentStore, DocumentWrite

BulkAction = Literal["cancel", "retry", "run_now", "delete"]

PLANS = "bulk_plans"
"""The collection; a key is the tenant, a slash and the id of the plan."""

MOST_PLANNED = 10_000
"""So many jobs are in one plan; where there are more, another plan follows."""

KEPT_FOR = timedelta(minutes=15)
SAMPLE_SIZE = 10
_MOST_SWEPT = 100


class BulkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen; nothing has.

    ``count`` jobs would be acted on, of which ``sample`` shows a few. ``passed_over_count`` were
    found and cannot be: they have ended, run, or have not failed. With ``has_more`` there are more
    jobs than fit in a plan.
    """

    id: str
    action: BulkAction
    made_at: datetime
    expires_at: datetime
    job_ids: tuple[JobId, ...]
    passed_over_count: int = 0
    has_more: bool = False
    sample: tuple[Job, ...] = ()

    @property
    def count(self) -> int:
        return len(self.job_ids)


def fits(action: BulkAction, job: Job, now: datetime) -> bool:
    """Whether there is any sense in doing that to the job as it is."""
    return _FITS[action](job, now)


_FITS: dict[BulkAction, Callable[[Job, datetime], bool]] = {
    "cancel": lambda job, _: not job.status.is_terminal,
    "retry": lambda job, _: is_dead(job),
    "run_now": lambda job, now: (
        job.status in (JobStatus.READY, JobStatus.PENDING) and job.due_at > now
    ),
    "delete": lambda *_: True,
}


async def plan_bulk(around: Surroundings, action: BulkAction, query: JobQuery) -> BulkPlan:
    """Find out what would be done, and remember it for a while; nothing else is written."""
    store, tenant, now = around.store, around.tenant, around.clock.now()
    plan_id = around.make_id(now)
    chosen: list[Job] = []
    passed_over_count, has_more = 0, False
    async for job in _walk(store, tenant, query):
        if not fits(action, job, now):
            passed_over_count += 1
        elif len(chosen) == MOST_PLANNED:
            has_more = True
            break
        else:
            chosen.append(job)
    plan = BulkPlan(
        id=plan_id,
        action=action,
        made_at=now,
        expires_at=now + KEPT_FOR,
        job_ids=tuple(job.id for job in chosen),
        passed_over_count=passed_over_count,
        has_more=has_more,
    )
    await _sweep(store, tenant, now)
    body = msgspec.json.encode(plan)
    await store.write_all([DocumentWrite(PLANS, _key(tenant, plan_id), None, body)])
    return msgspec.structs.replace(plan, sample=tuple(chosen[:SAMPLE_SIZE]))


async def take_plan(store: DocumentStore, tenant: str, plan_id: str, now: datetime) -> BulkPlan:
    """The plan, which is gone from here on: nobody carries it out twice.

    NotFoundError when there is none, for example because it is too old.
    """
    key = _key(tenant, plan_id)
    document = (await store.read(PLANS, [key])).get(key) if len(key) <= 255 else None
    plan = None if document is None else _decode(document.body)
    if document is None or plan is None or plan.expires_at <= now:
        raise NotFoundError(
            "There is no such plan: it is too old, or was carried out", {"field": "plan_id"}
        )
    try:
        await store.write_all([DocumentWrite(PLANS, key, document.version, None)])
    except StaleVersionError as error:
        raise NotFoundError(
            "The plan is being carried out by somebody else", {"field": "plan_id"}
        ) from error
    return plan


async def _walk(store: ControlStore, tenant: str, query: JobQuery) -> AsyncIterator[Job]:
    cursor: str | None = None
    while True:
        page: SearchPage = await search_jobs(
            store, tenant, query, cursor=cursor, limit=HIGHEST_LIMIT
        )
        for job in page.items:
            yield job
        cursor = page.next_cursor
        if cursor is None:
            return


async def _sweep(store: DocumentStore, tenant: str, now: datetime) -> None:
    """Forget the tenant's plans that are too old; whoever was faster has done it."""
    prefix, old = f"{tenant}/", list[DocumentWrite]()
    async for page in store.scan(PLANS):
        for document in page:
            plan = _decode(document.body) if document.key.startswith(prefix) else None
            if plan is not None and plan.expires_at <= now and len(old) < _MOST_SWEPT:
                old.append(DocumentWrite(PLANS, document.key, document.version, None))
    if old:
        await store.write_each(old)


def check_plan_id(plan_id: object) -> str:
    """The id of a plan, if it can be one."""
    if not isinstance(plan_id, str) or not 1 <= len(plan_id) <= 50:
        raise InvalidInputError("plan_id must be the id of a plan", {"field": "plan_id"})
    return plan_id


def _key(tenant: str, plan_id: str) -> str:
    return f"{tenant}/{plan_id}"


def _decode(body: bytes) -> BulkPlan | None:
    try:
        return msgspec.json.decode(body, type=BulkPlan)
    except msgspec.DecodeError:
        return None
