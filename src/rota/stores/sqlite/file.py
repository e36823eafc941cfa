"""The file itself: whether it may be used, and whether it is sound.

A file that exists is only ever opened by SQLite. Opening and closing it here as well would drop the
locks that SQLite holds on it for the whole process.
"""

import os
from pathlib import Path

import apsw

from rota.errors import StoreUnavailableError
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import damaged

WHOLE_CHECK_SIZE = 32 * 1024 * 1024
"""Up to this many bytes a file is checked as a whole when it is opened; that takes milliseconds."""

_FIRST_SAFE_VERSION = (3, 51, 3)


def check_library(version: str) -> None:
    """Refuse a SQLite library that can damage a file which several connections write to."""
    if tuple(int(part) for part in version.split(".")) < _FIRST_SAFE_VERSION:
        raise StoreUnavailableError(
            f"SQLite {version} can damage a file in write-ahead mode (the WAL-reset bug of 3.7.0 "
            "to 3.51.2): install apsw 3.51.3 or newer",
            {"version": version},
        )


def prepare_file(path: Path) -> None:
    """Make the file if there is none, for its owner alone; never a directory.

    A directory that is missing is more often a mistyped address than a wish, and a new, empty
    store in the wrong place is the worst answer to it.
    """
    if not path.parent.is_dir():
        raise StoreUnavailableError(
            f"The store {path} is not available: the directory {path.parent} does not exist. "
            f'Create it first: mkdir -m 700 "{path.parent}"',
            {"path": str(path), "reason": "the directory does not exist"},
        )
    try:
        _refuse_a_lost_file(path)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailableError(
            f"The store {path} is not available: the file cannot be created ({error.strerror})",
            {"path": str(path), "reason": "the file cannot be created"},
        ) from error


def _refuse_a_lost_file(path: Path) -> None:
    """SQLite takes an empty file for a new one, and deletes the log with all that is in it."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size and path.exists() and not path.stat().st_size:
        raise damaged(path, "the file is empty while its write-ahead log is not")


def check_file(connection: apsw.Connection, path: Path) -> None:
    """Refuse a file that is truncated, no database, or damaged where it can be seen cheaply.

    A file of up to ``WHOLE_CHECK_SIZE`` is walked as a whole. Of a larger one the header, the
    length and the schema are checked, and by ``check_edges`` both edges of the tree of documents;
    what is damaged deeper inside is reported by the call that meets it.
    """
    size = connection.execute(QUERIES.measure_file).fetchone()
    if size is not None and size[0] <= WHOLE_CHECK_SIZE:
        (finding,) = connection.execute(QUERIES.check_structure).fetchall()[0]
        if finding != "ok":
            raise damaged(path, str(finding).replace("\n", "; "))


def check_edges(connection: apsw.Connection) -> None:
    """Read the first and the last document; SQLite raises when it meets damage on the way."""
    connection.execute(QUERIES.check_edges).fetchall()
