"""Starts processes that poll one store, kills them, and reads what they were given."""

import multiprocessing
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import msgspec
from tests.process.fleet import PATIENCE, wait_for
from tests.process.programs.poller_member import Entry, Orders, take_part

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.process.programs.poller_member"])
"""A process of its own for each member, forked from one in which all modules are loaded."""


class Pack:
    """All processes that ever polled one store, and one journal for each."""

    def __init__(self, folder: Path, url: str, lock_for: timedelta, work_ms: int) -> None:
        self.lock_for = lock_for
        self._folder = folder
        self._url = url
        self._work_ms = work_ms
        self.members: list[ForkServerProcess] = []
        self.killed: set[int] = set()

    def start(self) -> None:
        number = len(self.members)
        orders = Orders(
            url=self._url,
            journal=str(self._folder / f"member-{number}.jsonl"),
            lock_ms=self.lock_for // timedelta(milliseconds=1),
            work_ms=self._work_ms,
        )
        complaints = str(self._folder / f"member-{number}.err")
        member = FORKS.Process(target=take_part, args=(orders, complaints))
        member.start()
        self.members.append(member)

    def kill_one(self) -> None:
        """Kill -9 the longest running one, whatever it is doing, and start another."""
        victim = self._left[0]
        self.killed.add(id_of(victim))
        end(victim)
        self.start()

    @property
    def _left(self) -> list[ForkServerProcess]:
        return [each for each in self.members if id_of(each) not in self.killed]

    def await_start(self) -> None:
        """Until all of them have started."""
        pids = {id_of(each) for each in self._left}
        wait_for(lambda: pids <= self._started, "the start of all")

    def stop(self) -> None:
        """Have all of them stop properly, once they have started; each says that it could."""
        left = self._left
        self.await_start()
        for member in left:
            os.kill(id_of(member), signal.SIGTERM)
        for member in left:
            member.join(PATIENCE)
        assert [member.exitcode for member in left] == [0] * len(left), self.complaints

    @property
    def _started(self) -> set[int]:
        return {entry.process_id for entry in self.entries}

    @property
    def complaints(self) -> str:
        return "\n".join(path.read_text() for path in self._folder.glob("member-*.err"))

    @property
    def entries(self) -> list[Entry]:
        lines = [
            line
            for path in self._folder.glob("member-*.jsonl")
            for line in path.read_bytes().split(b"\n")
            if line
        ]
        found = [msgspec.json.decode(line, type=Entry) for line in lines]
        return sorted(found, key=lambda entry: entry.at)

    @property
    def processed(self) -> dict[str, list[Entry]]:
        """What was given to pollers, by document, in order of time."""
        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            if entry.job:
                found[entry.job].append(entry)
        return found

    @property
    def errors(self) -> list[str]:
        return [entry.error for entry in self.entries if entry.error]

    def check_repeats(self) -> int:
        """How many documents were given twice; each after the lock of the first time had ended.

        The instant that a document is given as its due time is then the end of that lock.
        """
        count = 0
        for entries in self.processed.values():
            for first, second in pairwise(entries):
                count += 1
                assert second.due_at is not None
                assert first.due_at != second.due_at, (first, second)
                # The lock was taken just before the first entry, at an earlier instant.
                assert second.at >= second.due_at, (first, second)
                assert second.due_at - first.at < self.lock_for, (first, second)
        return count


def id_of(member: ForkServerProcess) -> int:
    assert member.pid is not None
    return member.pid


def end(member: ForkServerProcess) -> None:
    """Kill -9, and wait until it is gone."""
    member.kill()
    member.join(PATIENCE)


@contextmanager
def gathered_pack(
    folder: Path, url: str, *, size: int = 8, lock_for: timedelta, work_ms: int = 0
) -> Iterator[Pack]:
    """A pack of which nothing is left running, whatever happens."""
    pack = Pack(folder, url, lock_for, work_ms)
    try:
        for _ in range(size):
            pack.start()
        yield pack
    finally:
        for member in pack.members:
            end(member)
