"""The store in a MongoDB database."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NoReturn, Self, TypeVar

from pymongo.errors import PyMongoError

from rota.clock.protocol import to_utc
from rota.errors import DamagedJobError, UnsupportedConnectionError
from rota.jobs import Change, Job, JobId
from rota.jobs.retention import Expiry
from rota.stores.kernel import edits, settlement
from rota.stores.kernel.placement import Kept, plan_insertion
from rota.stores.kernel.unit import NewJob, Plan, Writes, answer_by, run_async
from rota.stores.kernel.verbs import ServerVerbs, SingleInserts
from rota.stores.mongo import documents, lease, read, records, results
from rota.stores.mongo.address import MongoSettings
from rota.stores.mongo.completion import complete
from rota.stores.mongo.connection import Connection, Session, is_duplicate
from rota.stores.mongo.schema import prepare
from rota.stores.mongo.unit import JobUnit, encode_new
from rota.stores.mongo.wakeups import MongoWakeups
from rota.stores.protocol import (
    Applied,
    DocumentWrite,
    EndedPlace,
    Inserted,
    LeaseKeeper,
    LeaseRequest,
    Pruned,
    Reach,
    checked,
)

Answer = TypeVar("Answer")

NO_TRANSACTIONS = "a store in MongoDB takes part in no transaction of its caller"


class MongoStore(SingleInserts, ServerVerbs[Connection]):
    """Documents and jobs in a database, for every process that can reach it.

    A call that has begun is completed even if its caller is cancelled. A store belongs to the
    process and the event loop that opened it.
    """

    reach = Reach.NETWORK
    _reads = read
    _leases = lease
    _records = records
    _documents = documents
    _notices: MongoWakeups

    def __init__(self, connection: Connection, settings: MongoSettings) -> None:
        super().__init__()
        self._connection = connection
        self._settings = settings
        self._notices = MongoWakeups(connection)
        self._spread = lease.Spread()
        self._limited_turn = asyncio.Lock()
        self.uses_native_paths = True
        """Whether plain jobs take the short ways; tests compare both."""
        self._group_singles(connection.calls)

    @classmethod
    async def open(cls, settings: MongoSettings) -> Self:
        """The store in a database, which is prepared if need be."""
        connection = await Connection.open(settings)
        try:
            await connection.run(lambda: prepare(connection))
        except BaseException:
            await connection.close()
            raise
        return cls(connection, settings)

    async def _insert(self, jobs: Sequence[Job], now: datetime) -> list[Inserted]:
        if not jobs:
            return []
        if self.uses_native_paths and not any(job.dependencies for job in jobs):
            inserted = await self._run(lambda _: self._insert_plain(jobs, now))
            if inserted is not None:
                return inserted
        return await self._run_plan(lambda: edits.insert(jobs, now))

    def _goes_with_others(self, jobs: Sequence[Job]) -> bool:
        """Not behind a mongos: a shard that is away must not keep out the tenants of others."""
        return not self._connection.is_routed and super()._goes_with_others(jobs)

    async def _insert_plain(self, jobs: Sequence[Job], now: datetime) -> list[Inserted] | None:
        """Native path: insert jobs without dependencies, without a look at what exists.

        None, and nothing written, if one of them exists already: then the kernel decides.
        """
        answers = plan_insertion(jobs, Kept({}, {}, {}))
        new = [each.job for each in answers if not each.is_existing]
        raws = [encode_new(NewJob(job), now) for job in new]
        try:
            if len(raws) == 1:
                await self._connection.jobs.insert_one(raws[0])
            else:
                await self._connection.transact(
                    lambda session: self._connection.jobs.insert_many(raws, session=session),
                    retries_duplicates=False,
                )
        except PyMongoError as error:
            if is_duplicate(error):
                return None
            raise
        await self._notices.ring((job.tenant, job.queue) for job in new)
        return answers

    async def lease(self, request: LeaseRequest, now: datetime) -> list[Job]:
        """See ``JobStore.lease``."""
        now = to_utc(now, "now")
        if not request.is_limited:
            return await self._run(
                lambda connection: lease.take_due(connection, request, now, self._spread)
            )
        async with self._limited_turn:  # leases of one process under limits would only contend
            return await self._run(lambda connection: lease.take_limited(connection, request, now))

    def make_keeper(self) -> LeaseKeeper:
        """See ``JobStore.make_keeper``."""
        self._refuse_when_unusable()
        return lease.MongoKeeper(self._settings)

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[Applied]:
        """See ``JobStore.apply``."""
        self._refuse_when_unusable()
        now, decided = to_utc(now, "now"), tuple(changes)
        settlement.check_paths(decided)
        connection, done = self._connection, set[JobId]()
        if self.uses_native_paths:
            done = await connection.run(lambda: self._complete_plain(decided, now))
        answers: list[Applied] = []
        if left := [change for change in decided if change.job_id not in done]:
            answers = await self._run_plan(lambda: settlement.apply(left, now))
            stale = [each for each, answer in zip(left, answers, strict=True) if answer.is_stale]
            await connection.run(lambda: results.drop_stale(connection, stale))
        return settlement.merge_answers(decided, done, answers)

    async def _complete_plain(self, changes: Sequence[Change], now: datetime) -> set[JobId]:
        """Native path: complete what needs no transaction; the jobs that are completed."""
        done, watched = await complete(self._connection, changes, now)
        await self._notices.ring((), done, watched)
        return done

    async def _refuse_within(self, *_: Any, **__: Any) -> NoReturn:
        """Refused: the store takes part in no transaction of its caller."""
        raise UnsupportedConnectionError(NO_TRANSACTIONS)

    insert_within = read_within = write_within = _refuse_within

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        """See ``JobStore.prune``."""
        try:
            return await super().prune(ended_before, limit, expiry, after)
        except DamagedJobError:
            return Pruned(0, 0, after)  # it is set aside, and not in the way of the next call

    async def read_clock(self) -> datetime | None:
        """The server's clock."""
        return await self._run(lambda connection: connection.read_clock())

    async def write_each(self, writes: Sequence[DocumentWrite]) -> list[int | None]:
        """See ``DocumentStore.write_each``."""
        accepted = tuple(checked(writes))
        if not accepted:
            return []
        return await self._run(lambda connection: documents.write_each(connection, accepted))

    async def write_all(self, writes: Iterable[DocumentWrite]) -> None:
        """See ``DocumentStore.write_all``."""
        await self._run(lambda connection: documents.write_all(connection, writes))

    async def _run_plan(self, make_plan: Callable[[], Plan[Answer]]) -> Answer:
        """Run a plan of the kernel in a transaction, and wake listeners.

        A job that cannot be read is set aside, and the caller learns of it.
        """
        self._refuse_when_unusable()

        async def work(session: Session) -> tuple[Writes, set[JobId], Answer]:
            unit = JobUnit(self._connection, session)
            writes, answer = await run_async(make_plan(), answer_by(unit))
            await unit.commit(writes)
            return writes, unit.watched, answer

        async def commit_and_ring() -> Answer:
            writes, watched, answer = await self._connection.transact(work)
            ended = writes.ended_jobs()
            await self._notices.ring(writes.ready_partitions(), ended, ended & watched)
            return answer

        try:
            return await self._connection.run(commit_and_ring)
        except DamagedJobError as damage:
            damaged = [] if damage.job_id is None else [damage.job_id]
            await self._connection.run(lambda: lease.set_aside(self._connection, damaged))
            raise

    async def _run(self, work: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        self._refuse_when_unusable()
        return await self._connection.run(lambda: work(self._connection))

    async def _release(self) -> None:
        await self._notices.close()
        await self._connection.close()
