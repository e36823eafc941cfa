"""Notices that files have changed; for development."""

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path

from rota.clock.protocol import Clock

LOOKED_EVERY = timedelta(milliseconds=500)

Mark = tuple[int, int]


async def wait_for_change(list_files: Callable[[], Collection[Path]], clock: Clock) -> set[Path]:
    """Return the files that were changed, came or went since this was called, once some were."""
    before = read_marks(list_files())
    while True:
        await clock.sleep(LOOKED_EVERY)
        after = read_marks({*list_files(), *before})
        changed = {path for path, mark in after.items() if before.get(path) != mark}
        if changed:
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
