"""Numbered changes to a schema, each applied once and in order.

A migration is a file ``0001_name.sql``. Its first line is ``-- compatible: yes`` or ``no``: whether
a program that knows only the migrations before it still works once it is applied. Files are never
edited after a release; a store keeps the checksum of what was applied.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rota.errors import SchemaOutdatedError
from rota.stores.statements import folder_of

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_FIRST_LINE = re.compile(r"-- compatible: (yes|no)\n")


class AppliedMigration(NamedTuple):
    """A migration as a store has recorded it."""

    number: int
    name: str
    is_compatible: bool
    checksum: str


def read_marks(rows: Iterable[Iterable[Any]]) -> tuple[AppliedMigration, ...]:
    """The migrations in the rows of ``read_migrations``; not every database has booleans."""
    return tuple(
        AppliedMigration(number, name, bool(is_compatible), checksum)
        for number, name, is_compatible, checksum in rows
    )


class Migration(NamedTuple):
    """A migration of this program."""

    mark: AppliedMigration
    script: str


def load_migrations(package: str) -> tuple[Migration, ...]:
    """The migrations in a package's folder ``migrations``, in order."""
    folder = folder_of(package) / "migrations"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir()}
    return tuple(read_migration(name, texts[name]) for name in sorted(texts))


def read_migration(file_name: str, text: str) -> Migration:
    """One file as a migration; ValueError if its name or first line is not valid."""
    named = _FILE_NAME.fullmatch(file_name)
    if named is None:
        raise ValueError(f"{file_name} is not called like 0001_name.sql")
    marked = _FIRST_LINE.match(text)
    if marked is None:
        raise ValueError(f"{file_name} does not begin with '-- compatible: yes' or 'no'")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    mark = AppliedMigration(int(named[1]), named[2], marked[1] == "yes", checksum)
    return Migration(mark, text)


def misfit(migration: Migration, place: str, error: Exception) -> SchemaOutdatedError:
    """The error for a migration that a store refuses."""
    number, name = migration.mark[:2]
    return SchemaOutdatedError(
        f"Migration {number:04d}_{name} does not fit this {place}: {error}",
        {"migration": number, "name": name},
    )


def pending_migrations(
    known: Sequence[Migration], applied: Iterable[AppliedMigration]
) -> tuple[Migration, ...]:
    """The migrations still to be applied, in order.

    Raises SchemaOutdatedError if this program cannot work with the schema: a later migration is not
    compatible, or a known one has other content.
    """
    marks = {mark.number: mark for mark in applied}
    known_numbers = {migration.mark.number for migration in known}
    for mark in marks.values():
        if mark.number not in known_numbers and not mark.is_compatible:
            raise SchemaOutdatedError(
                f"The store was changed by a newer version of Rota (migration {mark.number:04d}_"
                f"{mark.name}), which this version cannot work with: upgrade Rota",
                {"migration": mark.number, "name": mark.name},
            )
    return tuple(migration for migration in known if _is_pending(migration, marks))


def _is_pending(migration: Migration, marks: dict[int, AppliedMigration]) -> bool:
    known = migration.mark
    applied = marks.get(known.number)
    if applied is not None and applied.checksum != known.checksum:
        raise SchemaOutdatedError(
            f"The store has been through another migration {applied.number:04d}_{applied.name} "
            f"than the {known.number:04d}_{known.name} of this version of Rota",
            {"migration": known.number, "name": applied.name},
        )
    return applied is None
