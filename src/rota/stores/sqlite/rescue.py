"""Copies what can be read of a damaged file into a new one, and does not change the old one.

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
    """How many documents and jobs were saved, and whether these are all."""

    document_count: int
    job_count: int
    is_complete: bool


class _Table(NamedTuple):
    """A table with its primary key, and how to write its rows."""

    name: str
    key: tuple[str, ...]
    restore: str

    def read(self, direction: str) -> str:
        """The statement that reads all rows, ASC or DESC."""
        key = ", ".join(f"{column} {direction}" for column in self.key)
        return QUERIES.rescue_rows.replace(":table", self.name).replace(":key", key)


_TABLES = (
    _Table("documents", ("collection", "key"), QUERIES.load_document),
    _Table("jobs", ("id",), QUERIES.insert_job),
    _Table("job_dependencies", ("parent", "child"), QUERIES.add_dependency),
    _Table("job_attempts", ("job_id", "token"), QUERIES.add_attempt),
    _Table("attempt_reports", ("job_id", "token"), QUERIES.add_report),
    _Table("job_results", ("job_id",), QUERIES.keep_result),
    _Table("open_dependencies", ("job_id",), QUERIES.keep_open),
)


def rescue(damaged: Path, rescued: Path) -> RescueReport:
    """Copy the documents and jobs of ``damaged``, as they are, into the new store ``rescued``.

    Tables are read from both ends towards the damage, so only rows between the first and the last
    damaged page are lost. A job that waits for a lost one keeps waiting until it is amended or
    cancelled. Raises StoreDamagedError if the start of the file cannot be read.
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


class _Copied(NamedTuple):
    row_count: int
    is_complete: bool


def _copy(source: apsw.Connection, target: apsw.Connection) -> RescueReport:
    with transaction(target):
        copied = {table.name: _copy_table(source, target, table) for table in _TABLES}
    target.close()
    is_complete = all(each.is_complete for each in copied.values())
    return RescueReport(copied["documents"].row_count, copied["jobs"].row_count, is_complete)


def _copy_table(source: apsw.Connection, target: apsw.Connection, table: _Table) -> _Copied:
    if (table.name,) not in source.execute(QUERIES.read_tables).fetchall():
        return _Copied(0, is_complete=True)  # the file is older than the table
    before = target.total_changes()
    is_complete = False
    for direction in ("ASC", "DESC"):
        statement = table.read(direction)
        rows = _Readable(source.execute(statement))
        target.executemany(table.restore, rows)
        if rows.is_complete:
            is_complete = True
            break
    return _Copied(target.total_changes() - before, is_complete)


class _Readable:
    """Rows up to the first that cannot be read; ``is_complete`` if there was none."""

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
    """The program: 0 if all was saved, 3 if something was lost, 1 if nothing was done."""
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
    saved = f"{report.document_count} documents and {report.job_count} jobs"
    sys.stdout.write(f"Saved {saved} to {rescued}; {ending}.\n")
    return 0 if report.is_complete else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
