"""Plays one life of a producer and a worker on a real store, killed with kill -9 where it is told.

``python -m tests.process.programs.job_stage`` reads one life per line and plays each in a process
forked for it, so that a life costs milliseconds; the answer is how that process ended. Time inside
is virtual. One of the jobs may kill the process that runs it.
"""

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal

import apsw
import msgspec
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from tests.process.programs.lives import play_all
from tests.verification.jobs_trace import JobEntry, JobHistory, RecordingStore, Scribe, recorded
from tests.verification.jobs_trace.records import (
    ApplyAnswered,
    ApplyCalled,
    ExtendAnswered,
    InsertAnswered,
    LeaseAnswered,
    PruneAnswered,
)

from rota import open_store
from rota.jobs import (
    BackoffStrategy,
    Job,
    JobId,
    JobRequest,
    Recurrence,
    RetryPolicy,
    admit_job,
    make_job_id,
)
from rota.stores.mongo.connection import JOBS
from rota.stores.mysql.connections import Session as MysqlSession
from rota.stores.postgres.connections import Session
from rota.stores.postgres.queries import QUERIES
from rota.stores.redis.line import Line
from rota.stores.rows import Row
from rota.testing import VirtualClock
from rota.worker import Context, Snooze, Worker, WorkerSettings

BEGINS_AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
WHOLE_STORY = 9 * MINUTE
RECOVERY = 2.5 * MINUTE
"""The least time a life lasts, the first counted from the start; no job is pruned so soon."""
SETTINGS = WorkerSettings(
    concurrency=4,
    batch=4,
    lease_for=20 * SECOND,
    poll_for=10 * MINUTE,
    retention=6 * MINUTE,
)
POLICY = RetryPolicy(max_attempts=6, backoff_strategy=BackoffStrategy.FIXED, base_delay_seconds=2)
KINDS = ("plain", "failing", "snoozing", "long", "recurring", "node", "keyed", "deadly")

Moment = Literal["before", "staged", "commit", "after"]
_ANSWERS = (InsertAnswered, LeaseAnswered, ApplyAnswered, ExtendAnswered, PruneAnswered)


class FailPoint(msgspec.Struct, frozen=True):
    """Right before, right after or at the commit of the recorded call with this number.

    With MongoDB, also right after a write that needs no transaction.
    """

    call: int
    moment: Moment


class Passed(msgspec.Struct, frozen=True):
    """A fail point that a life came past, or died at; ``has_effect`` when something was written."""

    point: FailPoint
    verb: str
    has_effect: bool = True


class JobLife(msgspec.Struct, frozen=True):
    """From the first insert that is not acknowledged yet to the stop, unless it dies before."""

    store: str
    history: str
    points: str
    begins_at: datetime
    inserted_count: int = 0
    dies_at: FailPoint | None = None
    has_deadly: bool = True
    """Whether one of the jobs kills its worker."""


def number_id(number: int) -> JobId:
    return make_job_id(BEGINS_AT, number)


def make_job(kind: str, number: int, **fields: object) -> Job:
    request = JobRequest(
        **{"name": kind, "kind": kind, "queue": "work", "retry_policy": POLICY, **fields}  # type: ignore[arg-type] # the names are the record's own
    )
    return admit_job(request, job_id=number_id(number), now=BEGINS_AT)


def make_last() -> Job:
    """Not due before all is over. What it depends on must not be pruned."""
    dependencies = tuple(number_id(number) for number in (1, 3, 4, 9))
    return make_job("node", 13, dependencies=dependencies, due_at=BEGINS_AT + timedelta(days=1))


def make_batches(*, has_deadly: bool = True) -> list[list[Job]]:
    """What the producer submits, call by call; the same in every life."""
    deadly = [make_job("deadly", 12, due_at=BEGINS_AT + 8 * MINUTE)] if has_deadly else []
    series = Recurrence(interval="2m", start=BEGINS_AT, count=3)
    return [
        [make_job("plain", 1), make_job("failing", 2), make_job("snoozing", 3)],
        [make_job("keyed", 4, idempotency_key="once")],
        [make_job("keyed", 5, idempotency_key="once")],
        [
            make_job("node", 6),
            make_job("node", 7, dependencies=(number_id(6),)),
            make_job("node", 8, dependencies=(number_id(6),)),
            make_job("node", 9, dependencies=(number_id(7), number_id(8))),
        ],
        [make_job("recurring", 10, recurrence=series), make_job("long", 11)],
        [*deadly, make_last()],
    ]


class Fate:
    """Notes every fail point, and kills the process at one of them; then writes the history."""

    def __init__(self, life: JobLife, history: JobHistory) -> None:
        self._dies_at = life.dies_at
        self._history = history
        self._points = os.open(life.points, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._open: dict[int, str] = {}

    def sink(self, entry: JobEntry) -> None:
        """A call is on record when the process dies before it, its answer is not when after."""
        call = getattr(entry, "call", None)
        if call is None:
            self._history.append(entry)
        elif isinstance(entry, _ANSWERS):
            verb = self._open.pop(call)
            self._pass(Passed(FailPoint(call, "after"), verb, has_effect(entry)))
            self._history.append(entry)
        else:
            self._history.append(entry)
            self._open[call] = name_verb(entry)
            self._pass(Passed(FailPoint(call, "before"), self._open[call]))

    def commit(self) -> None:
        """A transaction is about to be committed: that of the oldest call under way, if any."""
        self._note("commit")

    def stage(self) -> None:
        """Something is written without a transaction, and its caller has no answer yet."""
        self._note("staged")

    def _note(self, moment: Moment) -> None:
        if self._open:
            call, verb = next(iter(self._open.items()))
            self._pass(Passed(FailPoint(call, moment), verb))

    def _pass(self, passed: Passed) -> None:
        os.write(self._points, msgspec.json.encode(passed) + b"\n")
        if passed.point == self._dies_at:
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def name_verb(entry: JobEntry) -> str:
    """What is called: what a sweep applies is told apart from what a worker settles."""
    if isinstance(entry, ApplyCalled) and any(move.outcome == "lost" for move in entry.moves):
        return "sweep"
    return str(type(entry).__struct_config__.tag).split(" ", 1)[0]


def has_effect(answer: JobEntry) -> bool:
    """Whether the call has written anything."""
    if isinstance(answer, LeaseAnswered):
        return bool(answer.grants)
    return not isinstance(answer, PruneAnswered) or answer.count > 0


def watch_commits(fate: Fate) -> None:
    """Have every commit pass by; with Redis, every script that was sent and is not answered."""

    def hook() -> bool:
        fate.commit()
        return False

    apsw.connection_hooks.append(lambda connection: connection.set_commit_hook(hook))
    run_script = Session.run_script

    async def watched(self: Session, script: str) -> None:
        if script == QUERIES.commit:
            fate.commit()
        await run_script(self, script)

    Session.run_script = watched  # type: ignore[method-assign] # the process is this life's own
    run = MysqlSession.run

    async def watched_run(self: MysqlSession, sql: str) -> list[Row]:
        if sql == "COMMIT":
            fate.commit()
        return await run(self, sql)

    MysqlSession.run = watched_run  # type: ignore[method-assign] # as above
    ask = Line.ask

    def watched_asking(self: Line, deadline: float, *command: Any) -> Any:
        answer = ask(self, deadline, *command)
        if command[0] in {"EVAL", "EVALSHA"}:
            fate.commit()
        return answer

    Line.ask = watched_asking  # type: ignore[method-assign] # as above
    watch_mongo(fate)


def watch_mongo(fate: Fate) -> None:
    """With MongoDB: have every commit pass by, and every write of jobs outside a transaction."""
    commit = AsyncClientSession.commit_transaction

    async def watched(self: AsyncClientSession) -> None:
        fate.commit()
        await commit(self)

    AsyncClientSession.commit_transaction = watched  # type: ignore[method-assign] # as above
    for name in ("insert_one", "update_many", "bulk_write"):
        setattr(AsyncCollection, name, watch_write(getattr(AsyncCollection, name), fate))


def watch_write(write: Any, fate: Fate) -> Any:
    async def watched(self: Any, *arguments: Any, **options: Any) -> Any:
        written = await write(self, *arguments, **options)
        if self.name == JOBS and options.get("session") is None:
            fate.stage()
        return written

    return watched


def make_handler(clock: VirtualClock, scribe: Scribe) -> object:
    async def work(context: Context) -> Snooze | None:
        kind = context.job.kind
        await clock.sleep((12 if kind == "long" else 1) * SECOND)
        if kind == "deadly":
            die()
        if kind == "failing" and context.attempt < 3:
            raise RuntimeError("one of the first two attempts")
        is_early = kind == "snoozing" and context.job.due_at < BEGINS_AT + MINUTE
        return Snooze(MINUTE) if is_early else None

    return recorded(work, scribe)


async def play(life: JobLife) -> None:
    clock = VirtualClock(life.begins_at)
    fate = Fate(life, JobHistory(Path(life.history)))
    scribe = Scribe(clock, fate.sink, life.history)
    watch_commits(fate)
    async with RecordingStore(await open_store(life.store), scribe) as store:
        for batch in make_batches(has_deadly=life.has_deadly)[life.inserted_count :]:
            await store.insert(batch, clock.now())
        handler = make_handler(clock, scribe)
        worker = Worker(
            store,
            dict.fromkeys(KINDS, handler),  # type: ignore[arg-type] # recorded() keeps the shape
            clock=clock,
            settings=SETTINGS,
        )
        worker.random = Random(7)
        running = asyncio.ensure_future(worker.run())
        ends_at = max(BEGINS_AT + WHOLE_STORY, life.begins_at + RECOVERY)
        await clock.advance_to(ends_at)
        worker.stop()
        await clock.run(running)


if __name__ == "__main__":
    play_all(JobLife, play)
