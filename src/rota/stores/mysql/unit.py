"""Units of work on MariaDB and MySQL, and two native paths beside them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256

import msgspec
from asyncmy import errors

from rota.jobs import Attempt, Change, Job, JobId
from rota.stores.kernel.identity import Identity, identity_of
from rota.stores.mysql.connections import DUPLICATE, code_of
from rota.stores.mysql.queries import QUERIES
from rota.stores.rows import Row, encode_attempt, encode_job, to_micros
from rota.stores.sql.locking import LockingUnit

_encode_json = msgspec.json.Encoder().encode


def digest(identity: Identity | None) -> bytes | None:
    """An identity in a fixed length: its four names are too long for an index."""
    return None if identity is None else sha256(_encode_json(identity)).digest()


class Unit(LockingUnit):
    """A unit of work in a transaction."""

    @staticmethod
    def encode_job(
        job: Job, now: datetime, open_count: int = 0, *, is_awaited: bool = False
    ) -> Row:
        row = encode_job(job, now, open_count, is_awaited=is_awaited)
        return (*row, digest(identity_of(job)), job.on_parent_failure, job.label)

    def _encode_move(self, job: Job, now: datetime) -> Row:
        return self.encode_job(job, now)

    _encode_amendment = _encode_move

    async def _find_twins(self, identities: Collection[Identity]) -> list[Row]:
        digests = [digest(each) for each in identities]
        return await self._session.fetch(QUERIES.lock_twins, identities=digests)

    async def _insert_new(self, rows: Sequence[Row]) -> bool:
        try:
            async with self._session.transaction():
                await self._session.write(QUERIES.insert_job, rows)
        except errors.IntegrityError as error:
            if code_of(error) != DUPLICATE:
                raise
            return False
        return True

    async def _complete(self, changes: Sequence[Change], now: datetime) -> set[JobId]:  # noqa: ARG002 - as the kernel, it takes the instants of the changes
        session, ids = self._session, sorted(change.job_id for change in changes)
        locked = set(await session.fetch(QUERIES.lock_plain, ids=ids))
        held = [
            one for one in changes if (one.job_id, one.job.tenant, one.expected_token) in locked
        ]
        if held:
            rows = _encode_json([_encode_completion(one) for one in held]).decode()
            await session.fetch(QUERIES.complete_jobs, rows=rows)
            results = [(one.job_id, one.result) for one in held if one.result is not None]
            await session.write(QUERIES.keep_result, results)
            await self._add_attempts([one.attempt for one in held if one.attempt is not None])
        return {one.job_id for one in held}

    async def _add_attempts(self, attempts: Sequence[Attempt]) -> None:
        rows = [(*encode_attempt(each), each.traceback, each.log) for each in attempts]
        await self._session.write(QUERIES.add_attempt, rows)


def _encode_completion(change: Change) -> Row:
    job = change.job
    started_at = None if job.completion is None else to_micros(job.completion.started_at)
    return job.id, to_micros(job.due_at), started_at, to_micros(job.updated_at)
