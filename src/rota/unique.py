"""Unique jobs: while one waits or runs, an equal one is not created.

A document names the latest job with the same arguments. Its writer decides, by the version of the
document, who creates the next one. A caller that finds a name without a job creates the job under
that name: so it exists once, even if the writer died or is slow.
"""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from rota.errors import ConflictError, DuplicateJobError, StaleVersionError
from rota.jobs import Job
from rota.session import Session
from rota.stores.protocol import Document, DocumentWrite, Inserted

UNIQUE = "unique"
"""The collection; the key of a document is the digest of a job's tenant, kind and arguments."""

KEPT_FOR = timedelta(hours=1)
"""A name without a job may be about to get one; after this time it will not."""

_ROUND_LIMIT = 20
_encode = msgspec.json.Encoder(order="deterministic").encode


def digest_job(job: Job, names: tuple[str, ...] | None) -> str:
    """What equal jobs have in common; ``names`` are the arguments that count, None is all."""
    payload = job.payload
    if names is not None:
        payload = {name: payload.get(name) for name in names}
    return sha256(_encode([job.tenant, job.kind, payload])).hexdigest()


async def insert_unique(session: Session, job: Job, key: str, within: Any = None) -> Inserted:
    """Create the job, or return the live one that is equal to it."""
    for _ in range(_ROUND_LIMIT):
        named = (await _read(session, key, within)).get(key)
        if named is not None:
            known = await _take_up(session, job, named, within)
            if known is not None:
                return known
        if await _name(session, key, named, job, within):
            return await _insert(session, job, within)
    raise ConflictError(f"{job.kind}: others create equal jobs all the time; try again")


async def sweep_unique(session: Session) -> int:
    """Remove the documents of jobs that have ended; how many."""
    now, removed_count = session.clock.now(), 0
    async for page in session.store.scan(UNIQUE):
        stale = [document for document in page if await _is_over(session, document, now)]
        writes = [DocumentWrite(UNIQUE, it.key, it.version, None) for it in stale]
        if writes:
            removed_count += sum(it == 0 for it in await session.store.write_each(writes))
    return removed_count


async def _take_up(session: Session, job: Job, named: Document, within: Any) -> Inserted | None:
    """The live job of that name, created now if it was only named; None if it has ended."""
    job_id = _name_of(named)
    known = (await session.store.get(job.tenant, [job_id])).get(job_id)
    if known is None:
        try:
            return await _insert(session, replace(job, id=job_id), within)
        except DuplicateJobError:  # it exists by now, with other arguments that do not count
            known = (await session.store.get(job.tenant, [job_id]))[job_id]
    return None if known.status.is_terminal else Inserted(known, is_existing=True)


async def _read(session: Session, key: str, within: Any) -> dict[str, Document]:
    if within is None:
        return await session.store.read(UNIQUE, [key])
    return await session.store.read_within(within, UNIQUE, [key])


async def _name(session: Session, key: str, named: Document | None, job: Job, within: Any) -> bool:
    """Whether this caller decides which job is the next one."""
    body = _encode([job.tenant, job.id])
    write = DocumentWrite(UNIQUE, key, None if named is None else named.version, body)
    if within is None:
        (version,) = await session.store.write_each([write])
        return version is not None
    try:
        await session.store.write_within(within, [write])
    except StaleVersionError:
        return False
    return True


async def _insert(session: Session, job: Job, within: Any) -> Inserted:
    if within is None:
        (inserted,) = await session.store.insert([job], job.created_at)
    else:
        (inserted,) = await session.store.insert_within(within, [job], job.created_at)
    return inserted


async def _is_over(session: Session, document: Document, now: datetime) -> bool:
    tenant, job_id = msgspec.json.decode(document.body, type=tuple[str, str])
    known = (await session.store.get(tenant, [job_id])).get(job_id)
    if known is not None:
        return known.status.is_terminal
    made_at = (UUID(job_id).int >> 80) * timedelta(milliseconds=1)
    return now.timestamp() - made_at.total_seconds() > KEPT_FOR.total_seconds()


def _name_of(document: Document) -> str:
    return msgspec.json.decode(document.body, type=tuple[str, str])[1]
