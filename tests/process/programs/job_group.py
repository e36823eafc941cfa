"""Workers and producers on one store, in real time, to be killed at any moment.

``python -m tests.process.programs.job_group`` reads one order per line and forks a process for
each, so that a new one is at work within milliseconds; the answer is its process id.
"""

import asyncio
import logging
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
from tests.process.programs.lives import load_backends
from tests.verification.jobs_trace import JobHistory, RecordingStore, Scribe, recorded

from rota import open_store
from rota.clock.system import SystemClock
from rota.errors import StoreUnavailableError
from rota.jobs import BackoffStrategy, Job, JobId, JobRequest, RetryPolicy, admit_job, make_job_id
from rota.worker import Context, Snooze, Worker, WorkerSettings, run_until_signalled

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TENANTS = ("acme", "default", "zoo")
BATCH = 50
LEASE = timedelta(seconds=2)
SETTINGS = WorkerSettings(
    concurrency=8, batch=16, lease_for=LEASE, poll_for=timedelta(milliseconds=200)
)
POLICY = RetryPolicy(max_attempts=10, backoff_strategy=BackoffStrategy.FIXED, base_delay_seconds=1)
CHAIN = 5
"""Every fifth job of a batch is waited for by the next."""


class GroupOrder(msgspec.Struct, frozen=True):
    """What one process is told. A producer goes on after the batches that were acknowledged.

    With a tenant it hands in only the batches of that one, and pauses between them.
    """

    role: Literal["worker", "producer"]
    store: str
    history: str
    job_count: int = 0
    batch_count: int = 0
    works_for: timedelta = timedelta(milliseconds=60)
    lease_for: timedelta = LEASE
    tenant: str | None = None
    pauses_for: timedelta = timedelta()


def number_id(number: int) -> JobId:
    return make_job_id(EPOCH + timedelta(seconds=number), number)


def make_batch(number: int, job_count: int) -> list[Job]:
    """The batch with this number, the same in every process."""
    first = number * BATCH
    return [make_job(each) for each in range(first, min(first + BATCH, job_count))]


def make_job(number: int) -> Job:
    kinds = ("plain", "plain", "plain", "failing", "plain", "snoozing", "plain")
    depends = number % CHAIN == 1 and number % BATCH > 0
    request = JobRequest(
        name="job",
        kind=kinds[number % len(kinds)],
        queue="work",
        payload={"number": number},
        priority=1 + number % 3,
        retry_policy=POLICY,
        idempotency_key=f"job {number}" if number % 4 == 0 else None,
        dependencies=(number_id(number - 1),) if depends else (),
    )
    tenant = _tenant_of(number // BATCH)
    return admit_job(request, job_id=number_id(number), now=EPOCH, tenant=tenant)


async def produce(store: RecordingStore, order: GroupOrder) -> None:
    """Hand in what is left, batch by batch, each again until it is acknowledged."""
    clock = SystemClock()
    for number in range(order.batch_count, -(-order.job_count // BATCH)):
        if order.tenant not in (None, _tenant_of(number)):
            continue
        while True:
            try:
                await store.insert(make_batch(number, order.job_count), clock.now())
                break
            except StoreUnavailableError:
                await clock.sleep(timedelta(milliseconds=50))
        await clock.sleep(order.pauses_for)


def _tenant_of(batch: int) -> str:
    return TENANTS[batch % len(TENANTS)]


def make_handler(scribe: Scribe, works_for: timedelta) -> Callable[[Context], Awaitable[Any]]:
    clock, random = SystemClock(), Random(os.getpid())

    async def work(context: Context) -> Snooze | None:
        await clock.sleep(works_for * (2 * random.random()))
        if context.job.kind == "failing" and context.attempt == 1:
            raise RuntimeError("the first attempt")
        is_first = context.job.kind == "snoozing" and context.token == 1
        return Snooze(timedelta(milliseconds=500)) if is_first else None

    return recorded(work, scribe)


async def take_part(order: GroupOrder) -> None:
    scribe = Scribe(SystemClock(), JobHistory(Path(order.history)).append, order.history)
    async with RecordingStore(await open_when_up(order.store), scribe) as store:
        if order.role == "producer":
            await produce(store, order)
            return
        handler = make_handler(scribe, order.works_for)
        handlers = dict.fromkeys(("plain", "failing", "snoozing"), handler)
        settings = msgspec.structs.replace(SETTINGS, lease_for=order.lease_for)
        await run_until_signalled(Worker(store, handlers, settings=settings))


async def open_when_up(address: str) -> Any:
    """The store, however long its server takes to be there."""
    while True:
        try:
            return await open_store(address)
        except StoreUnavailableError:
            await SystemClock().sleep(timedelta(milliseconds=50))


def fork_off(line: str) -> int:
    child = os.fork()
    if not child:
        os._exit(_take_part_alone(line))  # the rest of this stack belongs to the parent
    return child


def _take_part_alone(line: str) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        asyncio.run(take_part(msgspec.json.decode(line, type=GroupOrder)))
    except Exception:  # noqa: BLE001 - whatever it was, it must not reach the parent's loop
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.CRITICAL)
    load_backends()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps ended children
    for request in sys.stdin:
        sys.stdout.write(f"{fork_off(request)}\n")
        sys.stdout.flush()
