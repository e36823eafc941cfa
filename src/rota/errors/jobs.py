"""What can be wrong with a job, and with what is asked of one."""

from collections.abc import Sequence

from rota.errors.groups import ConflictError, InvalidInputError, NotFoundError, StoreError


class InvalidJobError(InvalidInputError):
    """A job cannot be accepted as it was asked for; ``field`` says where, ``reason`` why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}", {"field": field, "reason": reason})
        self.field = field
        self.reason = reason


class UnknownDependencyError(InvalidJobError):
    """A job names dependencies that do not exist."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__("dependencies", f"name jobs that do not exist: {', '.join(missing)}")
        self.missing = list(missing)
        self.details["missing"] = self.missing


class InvalidCursorError(InvalidInputError):
    """The text is no cursor of a list of jobs."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"cursor {reason}", {"field": "cursor", "reason": reason})
        self.reason = reason


class DependencyCycleError(ConflictError):
    """The dependencies would lead back to where they began; ``cycle_path`` is the way round."""

    def __init__(self, cycle_path: Sequence[str]) -> None:
        way = " -> ".join([*cycle_path, cycle_path[0]])
        super().__init__(f"Circular dependency: {way}", {"cyclePath": list(cycle_path)})
        self.cycle_path = list(cycle_path)


class IllegalMoveError(ConflictError):
    """A job cannot go from its current status to that one."""

    def __init__(self, current: str, target: str, reason: str | None = None) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(
            f"A job cannot move from {current} to {target}{why}",
            {"current": str(current), "target": str(target)},
        )
        self.current = current
        self.target = target
        self.reason = reason


class JobEndedError(ConflictError):
    """The job has reached a final status; nothing about it changes any more."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(
            f"Job {job_id} is {status}, which is final", {"jobId": job_id, "status": str(status)}
        )
        self.job_id = job_id
        self.status = status


class JobChangedError(ConflictError):
    """Somebody else has changed the job since it was read: it is changed as of ``updated_at``."""

    def __init__(self, job_id: str, updated_at: str) -> None:
        super().__init__(
            f"Job {job_id} was changed at {updated_at}, after it was read",
            {"field": "updated_at", "value": updated_at},
        )
        self.job_id = job_id
        self.updated_at = updated_at


class DependenciesFixedError(ConflictError):
    """The dependencies of a job change only while it waits for them."""

    def __init__(self, job_id: str, status: str) -> None:
        super().__init__(
            f"The dependencies of job {job_id} cannot change: it is {status}, no longer PENDING",
            {"jobId": job_id, "status": str(status)},
        )
        self.job_id = job_id
        self.status = status


class HasDependentsError(ConflictError):
    """The job cannot be deleted: others depend on it."""

    def __init__(self, job_id: str, dependents: Sequence[str]) -> None:
        super().__init__(
            f"Job {job_id} cannot be deleted: {len(dependents)} depend on it, such as "
            f"{dependents[0]}",
            {"jobId": job_id, "dependents": list(dependents)},
        )
        self.job_id = job_id
        self.dependents = list(dependents)


class DuplicateJobError(ConflictError):
    """What is asked for clashes with a job that exists; ``job_id`` is that job."""

    def __init__(self, job_id: str, reason: str) -> None:
        super().__init__(f"Job {job_id} exists already: {reason}", {"jobId": job_id})
        self.job_id = job_id
        self.reason = reason


class JobNotFoundError(NotFoundError):
    """The tenant has no job with that id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no job {job_id}", {"jobId": job_id})
        self.job_id = job_id


class DamagedJobError(StoreError):
    """A stored job cannot be read. It is not touched; others are not affected."""

    def __init__(self, job_id: str | None, reason: str) -> None:
        super().__init__(
            f"Stored job {job_id or 'without an id'} cannot be read: {reason}",
            {"jobId": job_id, "reason": reason},
        )
        self.job_id = job_id
        self.reason = reason
