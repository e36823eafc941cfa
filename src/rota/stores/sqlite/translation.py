"""Translates the errors of SQLite."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import apsw

from rota.errors import StoreDamagedError, StoreError, StoreUnavailableError

_REASONS: dict[type[apsw.Error], str] = {
    apsw.BusyError: "another program has kept it locked for too long",
    apsw.LockedError: "another program has kept it locked for too long",
    apsw.FullError: "the disk is full, or the file has reached its largest size",
    apsw.ReadOnlyError: "the file or its directory is read-only",
    apsw.CantOpenError: "the file cannot be opened",
    apsw.PermissionsError: "access to the file was denied",
    apsw.IOError: "reading or writing the file failed",
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into a StoreError about the file at ``path``."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error


def translate(error: apsw.Error, path: Path) -> StoreError:
    """The StoreError for an error of SQLite."""
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return damaged(path, str(error))
    reason = _REASONS.get(type(error), "SQLite refused")
    return StoreUnavailableError(
        f"The store {path} is not available: {reason} ({error})",
        {"path": str(path), "reason": reason},
    )


def damaged(path: Path, finding: str) -> StoreDamagedError:
    """The error for a file that is not a sound database."""
    rescued = path.with_name(f"{path.stem}-rescued{path.suffix}")
    names = f"{quote(str(path))} {quote(str(rescued))}"
    command = f"python -m rota.stores.sqlite.rescue {names}"
    return StoreDamagedError(
        f"The store {path} is damaged ({finding}). Nothing was changed in it. Keep a copy, stop "
        f"every program that uses it, and save what can be read with: {command}",
        {"path": str(path), "finding": finding, "recovery": command},
    )
