"""Runs the programs of the contestants, and reads what their handlers have counted."""

import json
import os
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

from bench.queue_contest.contestants import BULK_SIZE, Contestant
from bench.queue_contest.harness.environments import ROOT, Environments
from bench.queue_contest.harness.machine import cpu_of
from bench.queue_contest.harness.places import Place

PATIENCE = 300.0
"""Seconds after which a contestant that should have ended is given up."""

_COUNTS = struct.Struct("<QQ")


class ContestantError(Exception):
    """A program failed; what it said last is the message."""


class Entry:
    """A contestant at a place, ready to be told its verbs."""

    def __init__(
        self, contestant: Contestant, place: Place, environments: Environments, folder: Path
    ) -> None:
        self.contestant = contestant
        self.place = place
        self._folder = folder
        self._home = contestant.checkout or ROOT
        self._command = environments.command(contestant.environment, contestant.program)
        self._variables = _variables(
            contestant, place, environments.modules(contestant.environment), folder
        )

    def tell(self, verb: str, *numbers: int, patience: float = PATIENCE) -> float:
        """Have a verb carried out; the seconds that it took by its own account."""
        told = self.ask(verb, *numbers, patience=patience).splitlines()[-1:]
        return float(json.loads(told[0])["seconds"]) if told else 0.0

    def ask(self, verb: str, *numbers: int, patience: float = PATIENCE) -> str:
        """Have a verb carried out; all that it printed."""
        done = subprocess.run(
            [*self._command, verb, *map(str, numbers)],
            cwd=self._home,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
        if done.returncode != 0:
            raise ContestantError(f"{self.contestant.name}, {verb}: {done.stderr[-1500:]}")
        return done.stdout.strip()

    @contextmanager
    def workers(self, count: int) -> Iterator["Workers"]:
        """So many worker processes, connected and waiting for ``go``; ended by SIGTERM."""
        with (self._folder / "log").open("w+") as log:
            processes = [self._start([*self._command, "work"], log) for _ in range(count)]
            workers = Workers(processes, self._folder)
            try:
                workers.await_ready(log.name)
                yield workers
            finally:
                workers.stop()

    @contextmanager
    def enqueuer(self) -> Iterator["Enqueuer"]:
        """A process that is connected and waits for its turns."""
        with (self._folder / "log").open("w+") as log:
            process = self._start([*self._command, "turns"], log)
            try:
                yield Enqueuer(process, Path(log.name))
            finally:
                _end(process)

    def _start(self, command: list[str], log: Any) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=self._home,
            env=self._variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


class Workers:
    """Worker processes of one contestant."""

    def __init__(self, processes: "list[subprocess.Popen[str]]", folder: Path) -> None:
        self._processes = processes
        self._folder = folder

    def await_ready(self, log: str) -> None:
        """Return when every process has said that it is connected."""
        for process in self._processes:
            said = process.stdout.readline() if process.stdout else ""
            if said.strip() != "ready":
                raise ContestantError(f"a worker did not start: {Path(log).read_text()[-1500:]}")

    def go(self) -> None:
        for process in self._processes:
            if process.stdin:
                process.stdin.write("go\n")
                process.stdin.flush()

    @property
    def handled(self) -> int:
        """How often their handlers have run."""
        return sum(counts[0] for _, counts in self._tallies())

    @property
    def latencies(self) -> list[float]:
        """Seconds from enqueue to handler start, of stamped jobs."""
        return [
            seconds
            for path, (_, count) in self._tallies()
            for seconds in struct.unpack_from(f"<{count}d", path.read_bytes(), _COUNTS.size)
        ]

    @property
    def cpu(self) -> float:
        return cpu_of(process.pid for process in self._processes)

    def wait_until(self, is_reached: Callable[[], bool], what: str, pause: float = 0.002) -> None:
        """Return when it is; ContestantError when a worker ends or patience does."""
        gives_up_at = time.perf_counter() + PATIENCE
        while not is_reached():
            if any(process.poll() is not None for process in self._processes):
                log = (self._folder / "log").read_text()
                raise ContestantError(f"a worker ended by itself before {what}: {log[-1500:]}")
            if time.perf_counter() > gives_up_at:
                raise ContestantError(f"still waiting for {what} after {PATIENCE:.0f} s")
            time.sleep(pause)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            _end(process)

    def _tallies(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for path in self._folder.glob("*.tally"):
            with path.open("rb") as file:
                head = file.read(_COUNTS.size)
            if len(head) == _COUNTS.size:
                handled, stamped = _COUNTS.unpack(head)
                yield path, (handled, stamped)


class Enqueuer:
    """A process that enqueues when it is its turn."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        """Return when the process is connected; ContestantError when it does not start."""
        self._process = process
        self._log = log
        if self._read() != "ready":
            raise ContestantError(f"it did not start: {self._log.read_text()[-1500:]}")

    def take_turn(self, seconds: float) -> dict[str, float]:
        """One turn: how many jobs, in how many seconds, and its processor time."""
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{seconds}\n")
                self._process.stdin.flush()
        told = self._read()
        if not told:
            raise ContestantError(f"it did not end its turn: {self._log.read_text()[-1500:]}")
        turn: dict[str, float] = json.loads(told)
        return turn

    def _read(self) -> str:
        """Its next line; nothing if it has ended or patience has."""
        said = self._process.stdout
        is_there = said is not None and select([said], [], [], PATIENCE)[0]
        return said.readline().strip() if said is not None and is_there else ""


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


@contextmanager
def entry_folder() -> Iterator[Path]:
    """Where the programs of one measurement leave their tallies and complaints."""
    with TemporaryDirectory(prefix="rota-bench-entry-") as folder:
        yield Path(folder)


def _variables(contestant: Contestant, place: Place, modules: Path, folder: Path) -> dict[str, str]:
    told = {
        **contestant.settings,
        **place.settings,
        "bulk_size": BULK_SIZE,
        "folder": str(folder),
        "modules": str(modules),
    }
    source = str((contestant.checkout or ROOT) / "src")
    quiet = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPATH": source}  # all start from bytecode
    return {**os.environ, **quiet, "QUEUE_CONTEST": json.dumps(told)}
