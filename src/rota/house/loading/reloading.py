"""Notices that files have changed; for development."""

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path

from rota.clock.protocol import Clock

LOOKED_EVERY = timedelta(milliseconds=500)

Mark = tuple[int, int]


class FileWatch:
    """Remembers how files were when it was made, and when it last told of a change."""

    def __init__(self, list_files: Callable[[], Collection[Path]], clock: Clock) -> None:
        self._list_files = list_files
        self._clock = clock
        self._marks = read_marks(list_files())

    async def wait_for_change(self) -> set[Path]:
        """The files that were changed, came or went since then, once there are some."""
        while True:
            await self._clock.sleep(LOOKED_EVERY)
            before, after = self._marks, read_marks({*self._list_files(), *self._marks})
            changed = {path for path, mark in after.items() if before.get(path) != mark}
            if changed:
                self._marks = after
                return changed


def read_marks(files: Collection[Path]) -> Mapping[Path, Mark | None]:
    """When each was last written, and its size; None for one that is not there."""
    return {path: _read_mark(path) for path in files}


def _read_mark(path: Path) -> Mark | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
