"""A decided move, not yet written."""

import msgspec

from rota.jobs.record import Attempt, Job, JobId
from rota.jobs.states import JobStatus


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is to be written about one job, all of it or nothing.

    It holds only while the job is still at ``expected_status`` with the lease token
    ``expected_token``; otherwise it is stale, and writes nothing.
    """

    job: Job
    """The job as it will be."""
    path: tuple[JobStatus, ...]
    """The statuses it goes through, the present one first. Each step is in the table of moves."""
    expected_token: int
    attempt: Attempt | None = None
    """The attempt that was spent without success, to be kept."""
    successor: Job | None = None
    """The next job of its series; one with that id may exist already, and is then left alone."""
    missed_count: int = 0
    """How many occurrences of the series are passed over."""
    series_end: str | None = None
    """Why the series does not go on, when it recurred until now."""
    is_removed: bool = False
    """The job is not kept after its end."""

    @property
    def job_id(self) -> JobId:
        return self.job.id

    @property
    def expected_status(self) -> JobStatus:
        return self.path[0]
