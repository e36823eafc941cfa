"""What can be found out about a store without changing it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rota.errors import SchemaOutdatedError
from rota.stores.migrations import AppliedMigration, Migration, pending_migrations


def schema_version(applied: Iterable[AppliedMigration]) -> int:
    """The number of the last migration; 0 before the first."""
    return max((mark.number for mark in applied), default=0)


@dataclass(frozen=True, slots=True)
class StoreInspection:
    """A store as it was found. One that does not exist yet has been through no migration.

    ``address`` is fit to be shown: it holds no secret. ``version`` is that of the server, or of the
    library where there is none. ``problem`` says why this program cannot work with the schema, and
    is None when it can; ``job_counts`` is None where the schema knows no jobs yet. ``pinned_by``
    says who has kept the database for long from clearing away what is gone; None if nobody does.
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

    @property
    def schema_version(self) -> int:
        return schema_version(self.applied)

    @property
    def is_up_to_date(self) -> bool:
        return self.problem is None and not self.pending


@dataclass(frozen=True, slots=True)
class SchemaStanding:
    """How the schema of a store and the migrations this program knows stand to each other."""

    applied: tuple[AppliedMigration, ...]
    pending: tuple[AppliedMigration, ...] = ()
    problem: str | None = None


def compare_schema(
    known: Sequence[Migration], applied: Sequence[AppliedMigration]
) -> SchemaStanding:
    """As ``pending_migrations``, with what it raises as a finding."""
    try:
        pending = pending_migrations(known, applied)
    except SchemaOutdatedError as error:
        return SchemaStanding(tuple(applied), problem=error.message)
    return SchemaStanding(tuple(applied), tuple(migration.mark for migration in pending))


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What migrating a store has done: which migrations it went through now, in order."""

    applied: tuple[AppliedMigration, ...]
    schema_version: int
