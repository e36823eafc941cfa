"""A disk whose power is cut: what was not synced is lost, kept or torn, block by block.

SQLite writes through to real files and this VFS remembers, for each of them, what is certainly on
the disk and what was written since its last sync. A power cut makes an image of the disk in another
folder: every write since the last sync is there, or not, or only some of its sectors, in any
combination. Whatever is opened there is all that a restarted host would have.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import apsw

SECTOR = 512
_COUNTED = ("-wal", ".db")


class DiskFile:
    """What is certainly on the disk of one file, and what is on its way there."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self._unsynced: list[tuple[int, bytes | None]] = []

    def write(self, data: bytes, offset: int) -> None:
        self._unsynced.append((offset, bytes(data)))

    def truncate(self, size: int) -> None:
        self._unsynced.append((size, None))

    def sync(self) -> None:
        for offset, data in self._unsynced:
            _put(self.durable, offset, data)
        self._unsynced.clear()

    def image(self, random: Random) -> bytes:
        """The file after a power cut."""
        content = bytearray(self.durable)
        for offset, data in self._unsynced:
            if data is None:
                if random.random() < 0.5:
                    _put(content, offset, None)
                continue
            for start in range(0, len(data), SECTOR):
                if random.random() < 0.5:
                    _put(content, offset + start, data[start : start + SECTOR])
        return bytes(content)


def _put(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class SimulatedDisk(apsw.VFS):
    """The default VFS of SQLite while it is open; the power fails at a write or a sync."""

    def __init__(self, random: Random) -> None:
        self._base = apsw.vfs_names()[0]
        self._name = f"power {id(self)}"
        self._random = random
        self._files: dict[str, DiskFile] = {}
        self._left: int | None = None
        self._cut: Callable[[], None] | None = None
        self._lock = threading.RLock()
        super().__init__(self._name, self._base, makedefault=True)

    def close(self) -> None:
        """SQLite uses the real disk again."""
        self.unregister()
        apsw.set_default_vfs(self._base)

    def xOpen(self, name: Any, flags: list[int]) -> "_OpenFile":  # noqa: N802 - as SQLite calls it
        path = name.filename() if hasattr(name, "filename") else str(name)
        return _OpenFile(self, self._base, name, flags, path)

    def find(self, path: str) -> DiskFile:
        with self._lock:
            if path not in self._files:
                there = Path(path)
                self._files[path] = DiskFile(there.read_bytes() if there.exists() else b"")
            return self._files[path]

    def fail_in(self, count: int, cut: Callable[[], None]) -> None:
        """Let the power fail in that write or sync from now."""
        with self._lock:
            self._left, self._cut = count, cut

    def spare(self) -> None:
        """The power does not fail any more."""
        with self._lock:
            self._left = None

    def note(self) -> None:
        """One more write or sync."""
        with self._lock:
            if self._left is None:
                return
            self._left -= 1
            if self._left > 0:
                return
            self._left, cut = None, self._cut
        if cut is not None:
            cut()

    def save_image(self, source: Path, target: Path) -> None:
        """What a power cut now would leave of a database, as another one."""
        with self._lock:
            for suffix in ("", "-wal"):
                file = self._files.get(f"{source}{suffix}")
                if file is not None:
                    Path(f"{target}{suffix}").write_bytes(file.image(self._random))


class _OpenFile(apsw.VFSFile):
    """A file that is passed on to the real disk, and remembered."""

    def __init__(
        self, disk: SimulatedDisk, base: str, name: Any, flags: list[int], path: str
    ) -> None:
        super().__init__(base, name, flags)
        self._disk = disk
        is_temporary = not path.endswith((".db", "-wal"))
        self._file = None if is_temporary else disk.find(path)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - as SQLite calls it
        if self._file is not None:
            self._file.write(data, offset)
            self._disk.note()
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802 - as SQLite calls it
        if self._file is not None:
            self._file.truncate(size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802 - as SQLite calls it
        if self._file is not None:
            self._disk.note()
            self._file.sync()
        super().xSync(flags)
