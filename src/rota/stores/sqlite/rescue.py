"""Saves what can be read of a damaged file into a new one, and changes nothing in the old.

Run as a program: ``python -m rota.stores.sqlite.rescue damaged.db rescued.db``.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from rota.errors import RotaError, StoreUnavailableError
from rota.stores.sqlite.connection import SqliteSettings, open_writer, transaction
from rota.stores.sqlite.queries import QUERIES
from rota.stores.sqlite.translation import translated


class RescueReport(NamedTuple):
    """How many documents were saved, and whether that is all there were."""

    saved_count: int
    is_complete: bool


def rescue(damaged: Path, rescued: Path) -> RescueReport:
    """Copy the documents of ``damaged``, with their versions, into the new store ``rescued``.

    They are read from both ends towards the damage, so what is lost lies between the first and the
    last damaged page. Raises StoreDamagedError when not even the beginning can be read.
    """
    if rescued.exists():
        raise StoreUnavailableError(f"{rescued} exists already; name a file that does not")
    with translated(damaged):
        source = apsw.Connection(str(damaged), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            source.execute(QUERIES.measure_file).fetchall()
            return _copy(source, open_writer(SqliteSettings(rescued.absolute())))
        finally:
            source.close()


def _copy(source: apsw.Connection, target: apsw.Connection) -> RescueReport:
    before = target.total_changes()
    is_complete = True
    with transaction(target):
        for statement in (QUERIES.rescue_forwards, QUERIES.rescue_backwards):
            rows = _Readable(source.execute(statement))
            target.executemany(QUERIES.restore, rows)
            if rows.is_complete:
                break
        else:
            is_complete = False
    saved_count = target.total_changes() - before
    target.close()
    return RescueReport(saved_count, is_complete)


class _Readable:
    """Rows up to the first that cannot be read; afterwards tells whether that was the end."""

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows = rows
        self.is_complete = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._rows
        except apsw.CorruptError:
            return
        self.is_complete = True


def main(arguments: list[str]) -> int:
    """The program: 0 when all was saved, 3 when something was lost, 1 when nothing was done."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m rota.stores.sqlite.rescue DAMAGED RESCUED\n")
        return 2
    damaged, rescued = map(Path, arguments)
    try:
        report = rescue(damaged, rescued)
    except RotaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    ending = "that is all there were" if report.is_complete else "others could not be read"
    sys.stdout.write(f"Saved {report.saved_count} documents to {rescued}; {ending}.\n")
    return 0 if report.is_complete else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
