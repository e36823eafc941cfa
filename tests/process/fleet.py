"""Starts replicas of a scheduler on one store, kills them, and gathers what they did."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event

import msgspec
from tests.process.programs.history import read_history
from tests.process.programs.replica import Orders, TaskOrder
from tests.process.programs.scaled_clock import ScaledClock
from tests.verification.trace import (
    Crashed,
    Entry,
    InitializeReturned,
    Observed,
    RunFailed,
    RunStarted,
    RunSucceeded,
)

from rota import open_store
from rota.clock.system import monotonic
from rota.scheduler.storage import StoredTask, scan_tasks

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
"""Real seconds after which a condition is taken never to come true, on however slow a machine."""


def wait_for(condition: Callable[[], bool], what: str, within: float = PATIENCE) -> None:
    """Look again and again until the condition holds.

    A look that is costly, as one that asks a server is, is taken less often: what is waited for
    needs the processor more.
    """
    gives_up_at, pause, looked_at = monotonic() + within, Event(), monotonic()
    while not condition():
        if monotonic() > gives_up_at:
            raise AssertionError(f"{what} did not happen within {within} s")
        pause.wait(min(max(0.01, 4 * (monotonic() - looked_at)), 0.2))
        looked_at = monotonic()


class Replica:
    """One process, and the trace it leaves."""

    def __init__(self, orders: Orders, folder: Path) -> None:
        self.orders = orders
        self.killed_at: datetime | None = None
        self._errors = folder / f"{orders.instance}.err"
        command = [sys.executable, "-m", "tests.process.programs.replica"]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, msgspec.json.encode(orders).decode()],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stderr=errors,
            )

    @property
    def history(self) -> list[Entry]:
        return read_history(Path(self.orders.history))

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    @property
    def is_at_work(self) -> bool:
        """Whether it has been initialized and was not ended since."""
        is_there = self.process.poll() is None
        return is_there and any(isinstance(entry, InitializeReturned) for entry in self.history)

    @property
    def running(self) -> set[str]:
        """What it has started and not ended, as far as it has told."""
        names: set[str] = set()
        for entry in self.history:
            if isinstance(entry, RunStarted):
                names.add(entry.name)
            elif isinstance(entry, RunSucceeded | RunFailed):
                names.discard(entry.name)
        return names

    @property
    def trace(self) -> list[Entry]:
        """The history, closed with the crash if there was one.

        Others can see that a process is gone before the one who killed it can say so. The crash is
        therefore dated before the kill, or with the last thing that the process still did.
        """
        entries, name = self.history, self.orders.instance
        if self.killed_at is None:
            return entries
        at = max([self.killed_at, *(entry.at for entry in entries)])
        return [*entries, Crashed(at=at, instance=name)]

    def await_work(self) -> None:
        wait_for(lambda: self.is_at_work or self.process.poll() is not None, "initialize()")
        assert self.is_at_work, self.errors

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process itself."""
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it with kill -9 and wait until it is gone."""
        self.killed_at = self.orders.clock.now()
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Have it stop properly."""
        self.send(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.errors


class Fleet:
    """All replicas that ever ran on one store, in the order in which they were started."""

    def __init__(self, folder: Path, tasks: Sequence[TaskOrder], address: str | None) -> None:
        self.clock = ScaledClock(started=monotonic())
        self.replicas: list[Replica] = []
        self._folder = folder
        self._tasks = tuple(tasks)
        self.store = address or f"sqlite:///{folder / 'rota.db'}"

    @property
    def at_work(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.is_at_work]

    def start(self) -> Replica:
        name = f"replica-{len(self.replicas):02}"
        orders = Orders(
            store=self.store,
            history=str(self._folder / f"{name}.jsonl"),
            instance=name,
            clock=self.clock,
            tasks=self._tasks,
        )
        self.replicas.append(Replica(orders, self._folder))
        return self.replicas[-1]

    def start_and_await(self, count: int) -> list[Replica]:
        started = [self.start() for _ in range(count)]
        for replica in started:
            replica.await_work()
        return started

    def wait_until(self, instant: datetime) -> None:
        wait_for(lambda: self.clock.now() >= instant, f"{instant}")

    def list_stored_running(self) -> set[str]:
        """The tasks that the store holds as running, whether or not they are."""
        return asyncio.run(_read_running(self.store))

    def traces(self) -> list[list[Entry]]:
        """What each did; one observer more, who saw the present moment."""
        observer: list[Entry] = [Observed(at=self.clock.now(), instance="observer")]
        return [*(replica.trace for replica in self.replicas), observer]


async def _read_running(address: str) -> set[str]:
    async with await open_store(address) as store:
        found = [it async for it in scan_tasks(store)]
    return {it.name for it in found if isinstance(it, StoredTask) and it.state.running}


@contextmanager
def gathered_fleet(
    folder: Path, tasks: Sequence[TaskOrder], address: str | None = None
) -> Iterator[Fleet]:
    """A fleet of which nothing is left running, whatever happens; on a SQLite file by default."""
    fleet = Fleet(folder, tasks, address)
    try:
        yield fleet
    finally:
        for replica in fleet.replicas:
            replica.process.kill()
            replica.process.wait(PATIENCE)
