"""What a store of jobs answers."""

import msgspec

from rota.jobs import Job, JobId


class Inserted(msgspec.Struct, frozen=True):
    """The job as it is kept; ``is_existing`` when it was there before, and is left as it was."""

    job: Job
    is_existing: bool = False


class Applied(msgspec.Struct, frozen=True):
    """What became of one change, and of those who waited for its job."""

    job: Job | None
    """The job as the change has it; None when it was stale, and nothing was written.

    Fields that others amended since the change was decided are kept as they amended them, but shown
    here as they were: reading the job again shows them.
    """
    successor: Job | None = None
    """The next job of the series, if this change brought it into being."""
    released: tuple[JobId, ...] = ()
    """The dependents that became READY by it, by id."""
    blocked: tuple[JobId, ...] = ()
    """The descendants that became BLOCKED by it, by id."""
    is_removed: bool = False
    """The job is not kept any longer."""

    @property
    def is_stale(self) -> bool:
        return self.job is None


STALE = Applied(None)
