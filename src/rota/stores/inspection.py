"""The state of a store, found without changing it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from rota.errors import SchemaOutdatedError
from rota.stores.migrations import AppliedMigration, Migration, pending_migrations


def schema_version(applied: Iterable[AppliedMigration]) -> int:
    """The number of the last migration; 0 before the first."""
    return max((mark.number for mark in applied), default=0)


@dataclass(frozen=True, slots=True)
class StoreInspection:
    """The state of a store. One that does not exist yet has no applied migrations.

    ``address`` holds no secret. ``version`` is that of the server, or of the library if there is no
    server. ``problem`` says why this program cannot work with the schema; None if it can.
    ``job_counts`` is None if the schema has no jobs yet. ``pinned_by`` names a transaction that has
    long kept the database from clearing away deleted rows; None if there is none. ``notes`` say
    what an operator should know, though nothing is wrong.
    """

    address: str
    kind: str
    version: str = ""
    exists: bool = True
    applied: tuple[AppliedMigration, ...] = ()
    pending: tuple[AppliedMigration, ...] = ()
    problem: str | None = None
    size: int | None = None
    document_counts: Mapping[str, int] = field(default_factory=dict)
    job_counts: Mapping[str, int] | None = None
    set_aside_job_count: int = 0
    pinned_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def schema_version(self) -> int:
        return schema_version(self.applied)

    @property
    def is_up_to_date(self) -> bool:
        return self.problem is None and not self.pending


class SchemaStanding(msgspec.Struct, frozen=True):
    """The schema of a store, compared with the migrations of this program."""

    applied: tuple[AppliedMigration, ...]
    pending: tuple[AppliedMigration, ...] = ()
    problem: str | None = None


def compare_schema(
    known: Sequence[Migration], applied: Sequence[AppliedMigration]
) -> SchemaStanding:
    """As ``pending_migrations``, with its error as ``problem``."""
    try:
        pending = pending_migrations(known, applied)
    except SchemaOutdatedError as error:
        return SchemaStanding(tuple(applied), problem=error.message)
    return SchemaStanding(tuple(applied), tuple(migration.mark for migration in pending))


def describe_content(
    base: StoreInspection,
    standing: SchemaStanding,
    documents: Iterable[Iterable[Any]],
    jobs: Sequence[Iterable[Any]] | None,
) -> StoreInspection:
    """The inspection, with the schema and how much there is.

    ``documents`` are rows of collection and count, ``jobs`` of status, count and how many are set
    aside.
    """
    return replace(
        base,
        applied=standing.applied,
        pending=standing.pending,
        problem=standing.problem,
        document_counts=dict(map(tuple, documents)),
        job_counts=None if jobs is None else {status: count for status, count, _ in jobs},
        set_aside_job_count=sum(aside for _, _, aside in jobs or ()),
    )


class MigrationReport(msgspec.Struct, frozen=True):
    """The migrations that were applied now, in order, and the version they led to."""

    applied: tuple[AppliedMigration, ...]
    schema_version: int
