"""A history in a file of its own, outside the store, written before its process goes on."""

import os
from collections.abc import Iterable, Sequence
from heapq import merge
from pathlib import Path

from tests.verification.jobs_trace.records import JobEntry, from_line, to_line


class JobHistory:
    """Appends records, each with one write: a process that is killed can cut only its last line.

    Threads may append at the same time.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append(self, entry: JobEntry) -> None:
        """Write it down; it outlives the process from here on."""
        os.write(self._file, to_line(entry))

    def close(self) -> None:
        os.close(self._file)


def read_history(path: Path) -> list[JobEntry]:
    """All whole lines; none when there is no such file."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [from_line(line) for line in lines if line.endswith(b"\n")]


def merge_histories(histories: Iterable[Sequence[JobEntry]]) -> list[JobEntry]:
    """Histories of several processes, by time; each must be in order in itself.

    What happened at the same instant stays in the order of the histories.
    """
    return list(merge(*histories, key=lambda entry: entry.at))
