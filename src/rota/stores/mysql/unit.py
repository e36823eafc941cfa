"""Units of work on MariaDB and MySQL, and two native paths beside them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

import msgspec
from asyncmy import errors
from msgspec.structs import replace

from rota.jobs import Attempt, Change, Job, JobId
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.kernel.settlement import find_plain, merge_answers
from rota.stores.kernel.unit import Committed, NewJob, Plan
from rota.stores.mysql.connections import DUPLICATE, Session, code_of
from rota.stores.mysql.queries import QUERIES
from rota.stores.protocol import Applied, Inserted
from rota.stores.rows import (
    Row,
    encode_attempt,
    encode_job,
    encode_unreadable,
    read_payload,
    to_micros,
)
from rota.stores.sql import unit

Answer = TypeVar("Answer")

_encode_json = msgspec.json.Encoder().encode


def encode(job: Job, now: datetime, open_count: int = 0, *, is_awaited: bool = False) -> Row:
    """The columns of ``insert_jobs``."""
    row = encode_job(job, now, open_count, is_awaited=is_awaited)
    return (*row, digest(identity_of(job)), job.on_parent_failure, job.label)


def digest(identity: Identity | None) -> bytes | None:
    """An identity in a fixed length: its four names are too long for an index."""
    return None if identity is None else sha256(_encode_json(identity)).digest()


async def run_plan(session: Session, plan: Plan[Answer]) -> Committed[Answer]:
    """Run a plan of the kernel and write what it decides."""
    async with session.transaction():
        return await Unit(session).run(plan)


async def insert(
    session: Session, jobs: Sequence[Job], rows: Sequence[Row], now: datetime, *, is_native: bool
) -> Committed[list[Inserted]]:
    """Insert jobs. The native path is for new jobs without dependencies; others take the kernel.

    ``rows`` are the jobs as of the call: the caller may change a payload later.
    """
    if is_native and not any(job.dependencies for job in jobs):
        try:
            async with session.transaction():
                await session.write(QUERIES.insert_job, rows)
        except errors.IntegrityError as error:
            if code_of(error) != DUPLICATE:
                raise
        else:
            ready = {(job.tenant, job.queue) for job in jobs}
            return Committed([Inserted(job) for job in jobs], ready)
    copies = [replace(job, payload=read_payload(row)) for job, row in zip(jobs, rows, strict=True)]
    return await run_plan(session, edits.insert(copies, now))


async def apply(
    session: Session, changes: Sequence[Change], now: datetime, *, is_native: bool
) -> Committed[list[Applied]]:
    """Apply changes. The native path completes plain jobs; the rest takes the kernel."""
    async with session.transaction():
        done = await _complete(session, find_plain(changes) if is_native else ())
        rest = [change for change in changes if change.job_id not in done]
        committed: Committed[list[Applied]] = Committed([], set())
        if rest:
            committed = await Unit(session).run(settlement.apply(rest, now))
    answers = merge_answers(changes, done, committed.answer)
    return Committed(answers, committed.ready, committed.ended | done)


async def _complete(session: Session, changes: Sequence[Change]) -> set[JobId]:
    """Complete each job that has no dependents, if its change still holds; which ones."""
    if not changes:
        return set()
    ids = sorted(change.job_id for change in changes)
    locked = set(await session.fetch(QUERIES.lock_plain, ids=ids))
    held = [one for one in changes if (one.job_id, one.job.tenant, one.expected_token) in locked]
    if held:
        rows = [
            (
                *(one.job_id, to_micros(one.job.due_at)),
                None if one.job.completion is None else to_micros(one.job.completion.started_at),
                to_micros(one.job.updated_at),
            )
            for one in held
        ]
        await session.fetch(QUERIES.complete_jobs, rows=_encode_json(rows).decode())
        results = [(one.job_id, one.result) for one in held if one.result is not None]
        await session.write(QUERIES.keep_result, results)
        attempts = [one.attempt for one in held if one.attempt is not None]
        await session.write(QUERIES.add_attempt, map(_encode_attempt, attempts))
    return {one.job_id for one in held}


def _encode_attempt(attempt: Attempt) -> Row:
    return (*encode_attempt(attempt), attempt.traceback, attempt.log)


class Unit(unit.Unit[Session]):
    """A unit of work in a transaction; rows are locked in the order of their ids."""

    async def _find_twins(self, identities: Collection[Identity]) -> list[Row]:
        digests = [digest(each) for each in identities]
        return await self._session.fetch(QUERIES.lock_twins, identities=digests)

    async def _find_waiting(self, parents: Collection[JobId], *, is_deep: bool) -> list[Row]:
        """Level by level: who depends on a job is read once the job is locked."""
        found: list[Row] = []
        seen: set[JobId] = set()
        level = set(parents)
        while level:
            parents_of: defaultdict[JobId, list[JobId]] = defaultdict(list)
            for parent, children in (await self._read_links(QUERIES.find_children, level)).items():
                for child in children:
                    parents_of[child].append(parent)
            rows = await self._session.fetch(QUERIES.lock_waiting, ids=sorted(parents_of))
            found += [(*row[:-1], each, row[-1]) for row in rows for each in parents_of[row[0]]]
            level = {row[0] for row in rows} - seen if is_deep else set()
            seen |= level
        return found

    async def _find_ancestors(self, job_ids: Collection[JobId]) -> dict[JobId, list[JobId]]:
        await self._session.fetch(QUERIES.lock_row, name="dependencies")
        found: dict[JobId, list[JobId]] = {}
        level = set(job_ids)
        while level:
            links = await self._read_links(QUERIES.find_parents, level)
            found |= links
            level = {parent for parents in links.values() for parent in parents} - found.keys()
        return found

    async def _lock_ended(self, job_ids: Sequence[JobId]) -> Collection[JobId]:
        """Once they are locked, they gain no dependent: those that just did are left out."""
        locked: dict[JobId, str] = dict(
            await self._session.fetch(QUERIES.lock_statuses, ids=sorted(job_ids))
        )
        return locked.keys() - await self._read_links(QUERIES.find_children, job_ids)

    def _encode_new(self, new: NewJob, now: datetime) -> Row:
        row = encode(new.job, now, new.open_count, is_awaited=new.is_awaited)
        return row if new.unreadable is None else encode_unreadable(row, new.unreadable)

    def _encode_move(self, job: Job, now: datetime) -> Row:
        return encode(job, now)

    _encode_amendment = _encode_move

    async def _add_attempts(self, attempts: Sequence[Attempt]) -> None:
        await self._session.write(QUERIES.add_attempt, map(_encode_attempt, attempts))
