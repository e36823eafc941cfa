"""``insert``: jobs are placed here, by the rules, and kept if what they were placed by still holds.

Most jobs are new and depend on nobody: nothing is looked up for them, and the script says if that
was wrong.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rota.errors import RotaError
from rota.jobs import Job, JobId, JobStatus, format_instant
from rota.stores.kernel.identity import identity_of
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.protocol import Inserted
from rota.stores.redis.database import Database
from rota.stores.redis.jobs.reading.reading import look_up
from rota.stores.redis.jobs.rows import (
    code_of,
    encode_addition,
    encode_body,
    encode_head,
    encode_identity,
    encode_places,
)
from rota.stores.redis.scripts import load_script

INSERT = load_script(__package__, "insert")
ADD = load_script(__package__, "add")

_NOTHING = Kept(by_id={}, by_identity={}, statuses={})


class Insertion(NamedTuple):
    """What has been kept, and what listeners are to be told of it."""

    answers: list[Inserted]
    places: bytes = b""


async def insert(database: Database, jobs: Sequence[Job], now: datetime, sender: str) -> Insertion:
    """Keep all of these jobs or none; see the protocol."""
    guessed = None if _depends_on_others(jobs) else _plan_unseen(jobs)
    if guessed is not None:
        places = await _write(database, guessed, _NOTHING, now, sender)
        if places is not None:
            return Insertion(guessed, places)
    while True:
        kept = await _look_up(database, jobs)
        answers = plan_insertion(jobs, kept)
        places = await _write(database, answers, kept, now, sender)
        if places is not None:
            return Insertion(answers, places)


def _plan_unseen(jobs: Sequence[Job]) -> list[Inserted] | None:
    """What is kept of the jobs if all are new.

    None when they are refused: by what is there it may be for another reason.
    """
    try:
        return plan_insertion(jobs, _NOTHING)
    except RotaError:
        return None


async def _write(
    database: Database, answers: Sequence[Inserted], kept: Kept, now: datetime, sender: str
) -> bytes | None:
    """Keep what is new; None when something is not as it was when the answers were found."""
    new = {answer.job.id: answer.job for answer in answers if not answer.is_existing}
    if not new and not database.settings.replica_count:
        return b""
    if new and all(map(_is_alone, new.values())):
        return await _add(database, new.values(), format_instant(now), sender)
    arguments = [format_instant(now), sender, *_dependencies(new, kept)]
    for job in new.values():
        arguments += job.id, encode_head(job), encode_body(job)
    places: bytes | None = await database.write(INSERT, database.keys.jobs, arguments)
    return places


async def _add(database: Database, jobs: Collection[Job], now: str, sender: str) -> bytes | None:
    """The same for jobs that are all alone, which takes the server half the time."""
    places = encode_places(jobs)
    arguments: list[Any] = [now, sender.encode() + places]
    for job in jobs:
        arguments += encode_addition(job, now)
    is_kept = await database.write(ADD, database.keys.additions, arguments)
    return places if is_kept else None


def _is_alone(job: Job) -> bool:
    return job.status is JobStatus.READY and not job.dependencies and job.lease is None


def _depends_on_others(jobs: Sequence[Job]) -> bool:
    mine = {job.id for job in jobs}
    return any(each not in mine for job in jobs for each in job.dependencies)


async def _look_up(database: Database, jobs: Sequence[Job]) -> Kept:
    """Whatever the new jobs may clash with or depend on."""
    named = {each for job in jobs for each in (job.id, *job.dependencies)}
    identities = {encode_identity(job) for job in jobs} - {""}
    found = await look_up(database, sorted(named), sorted(identities))
    return Kept(
        by_id=found,
        by_identity={
            identity: job for job in found.values() if (identity := identity_of(job)) is not None
        },
        statuses={(job.tenant, job.id): job.status for job in found.values()},
    )


def _dependencies(new: Mapping[JobId, Job], kept: Kept) -> list[Any]:
    """Their number, and for each that is there already what it was like."""
    named = {each for job in new.values() for each in job.dependencies if each not in new}
    arguments: list[Any] = [len(named)]
    for each in sorted(named):
        job = kept.by_id[each]
        arguments += each, job.tenant, code_of(job)
    return arguments
