"""What can go wrong when a poller processes documents."""

from datetime import datetime

from rota.errors.groups import ConflictError


class LockLostError(ConflictError):
    """A document was processed for longer than it was locked, and is in other hands now.

    It has been, or will be, processed again; nothing more was written about this time. A longer
    ``lock_duration`` avoids it.
    """

    def __init__(self, job_id: object, lock_until: datetime) -> None:
        super().__init__(
            f"The lock on {job_id} ran out at {lock_until.isoformat()}, before it was processed",
            {"jobId": str(job_id), "lockUntil": lock_until.isoformat()},
        )
        self.job_id = job_id
        self.lock_until = lock_until
