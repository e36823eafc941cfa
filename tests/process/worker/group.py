"""A group of real processes on one store, some of which are killed, and the judgement of it all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event
from typing import cast

import msgspec
from tests.process.fleet import PATIENCE, ROOT, wait_for
from tests.process.programs.job_group import TENANTS, GroupOrder
from tests.servers.postgres import is_running
from tests.verification.jobs_trace import (
    JobEntry,
    Snapshot,
    merge_histories,
    read_history,
    take_snapshot,
)
from tests.verification.jobs_trace.records import Crashed, InsertAnswered

from rota import open_store
from rota.clock.system import SystemClock, monotonic
from rota.errors import StoreUnavailableError
from rota.jobs import JobFilter, JobStatus
from rota.stores.protocol import JobStore

OPEN = (JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING)


class Member:
    """One process, and the history it leaves."""

    def __init__(self, order: GroupOrder, process_id: int) -> None:
        self.order = order
        self.process_id = process_id
        self.killed_at: datetime | None = None

    @property
    def is_running(self) -> bool:
        return self.killed_at is None and is_running(self.process_id)

    @property
    def history(self) -> list[JobEntry]:
        """What it did, closed with its death if it was killed."""
        entries = read_history(Path(self.order.history))
        if self.killed_at is None:
            return entries
        at = max([self.killed_at, *(entry.at for entry in entries)])
        return [*entries, Crashed(at=at, instance=self.order.history)]

    def kill(self) -> None:
        self.killed_at = SystemClock().now()
        self._send(signal.SIGKILL)

    def stop(self) -> None:
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process_id, number)


class ProcessGroup:
    """Everybody who ever worked on one store."""

    def __init__(self, zygote: "subprocess.Popen[str]", folder: Path, order: GroupOrder) -> None:
        self.members: list[Member] = []
        self._zygote = zygote
        self._folder = folder
        self._order = order

    @property
    def job_count(self) -> int:
        return self._order.job_count

    @property
    def killed_count(self) -> int:
        return sum(member.killed_at is not None for member in self.members)

    @property
    def at_work(self) -> list[Member]:
        return [member for member in self.members if member.is_running]

    def start_worker(self) -> Member:
        return self._start(msgspec.structs.replace(self._order, role="worker"))

    def count_acknowledged(self) -> int:
        """How many batches producers know to be stored."""
        return sum(
            isinstance(entry, InsertAnswered)
            for member in self.members
            if member.order.role == "producer"
            for entry in read_history(Path(member.order.history))
        )

    def start_producer(self) -> Member:
        """One who hands in whatever is not acknowledged yet."""
        count = self.count_acknowledged()
        return self._start(msgspec.structs.replace(self._order, role="producer", batch_count=count))

    def start_producers(self) -> list[Member]:
        """One for each tenant, who hands in the batches of that tenant."""
        order = msgspec.structs.replace(self._order, role="producer")
        return [self._start(msgspec.structs.replace(order, tenant=each)) for each in TENANTS]

    def kill_one(self, random: Random) -> None:
        """Kill somebody with kill -9, and have another in their place at once."""
        victim = random.choice(self.at_work)
        victim.kill()
        if victim.order.role == "worker":
            self.start_worker()
        else:
            wait_for(lambda: not is_running(victim.process_id), "the death of a producer")
            self.start_producer()

    def stop(self) -> None:
        """Have all end properly."""
        for member in self.at_work:
            member.stop()
        wait_for(lambda: not self.at_work, "the end of the last worker")

    def merged_history(self) -> list[JobEntry]:
        return merge_histories(member.history for member in self.members)

    def _start(self, order: GroupOrder) -> Member:
        history = self._folder / f"member-{len(self.members):04}.jsonl"
        order = msgspec.structs.replace(order, history=str(history))
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(msgspec.json.encode(order).decode() + "\n")
        self._zygote.stdin.flush()
        self.members.append(Member(order, int(self._zygote.stdout.readline())))
        return self.members[-1]


@contextmanager
def gathered_group(folder: Path, order: GroupOrder) -> Iterator[ProcessGroup]:
    """A group whose processes all end with the test, whatever happens."""
    command = [sys.executable, "-m", "tests.process.programs.job_group"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) as zygote:
        group = ProcessGroup(zygote, folder, order)
        try:
            yield group
        finally:
            for member in group.at_work:
                member.kill()
            assert zygote.stdin is not None
            zygote.stdin.close()
            zygote.wait(PATIENCE)


async def count_open(address: str) -> int | None:
    """How many jobs have not ended; None when the store cannot be asked."""
    try:
        async with await open_store(address) as opened:
            store = cast(JobStore, opened)
            counts = [
                await store.count(tenant, JobFilter(status=status))
                for tenant in TENANTS
                for status in OPEN
            ]
            return sum(counts)
    except StoreUnavailableError:
        return None


async def read_all(address: str) -> Snapshot:
    async with await open_store(address) as opened:
        return await take_snapshot(cast(JobStore, opened), TENANTS, SystemClock().now())


def pause_for(duration: timedelta) -> None:
    """Real time goes by."""
    Event().wait(duration.total_seconds())


def seconds_now() -> float:
    return monotonic()
