"""What a process did, in a file of its own outside the store, written before it goes on."""

import os
from pathlib import Path

from tests.verification.trace import Entry, from_json_line, to_json_line


class History:
    """Appends records, each with one write: a process that is killed can cut only its last line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append(self, entry: Entry) -> None:
        os.write(self._file, to_json_line(entry) + b"\n")


def read_history(path: Path) -> list[Entry]:
    """All whole lines. What was cut off was never done: the record comes before the deed."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [from_json_line(line) for line in lines if line.endswith(b"\n")]
