"""A handle on an enqueued job: its result, its status, and what can be done with it."""

from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

from msgspec import ValidationError

from rota.clock.duration import Duration, read_duration
from rota.clock.system import timeout_after
from rota.errors import (
    ConflictError,
    InvalidInputError,
    InvalidResultError,
    JobNotFoundError,
    ResultTimeoutError,
)
from rota.jobs import Job, JobId, JobStatus
from rota.jobs.job_state import find_state
from rota.ops.explain import explain_job
from rota.ops.explanation import Explanation
from rota.ops.results import read_end, wait_for_end
from rota.outputs import Output
from rota.rail.dead_letters import DeadLetters
from rota.rail.jobs import cancel_jobs
from rota.session import Session, Sessions
from rota.signature import TaskSignature

R_co = TypeVar("R_co", covariant=True)


class JobHandle(Generic[R_co]):
    """One job of a task, by its id. It holds no connection and can be kept or sent anywhere."""

    __slots__ = ("_sessions", "_signature", "id", "tenant")

    def __init__(
        self, sessions: Sessions, signature: TaskSignature, job_id: JobId, tenant: str
    ) -> None:
        self._sessions = sessions
        self._signature = signature
        self.id = job_id
        self.tenant = tenant

    def __repr__(self) -> str:
        return f"<JobHandle {self.id} of {self._signature.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and (self.id, self.tenant) == (other.id, other.tenant)

    def __hash__(self) -> int:
        return hash((self.id, self.tenant))

    @property
    def output(self) -> R_co:
        """Stands for the result in the arguments of another job, which then waits for this one."""
        if not self._signature.keeps_result:
            raise InvalidInputError(
                f"{self._signature.name} keeps no result, so its jobs have no output; declare it "
                "without keep_result=False",
                {"field": "keep_result"},
            )
        return cast("R_co", Output(self.id))

    async def result(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109 - fixed name
        """Wait for the job to end, and return what its function returned.

        Raises JobFailedError, JobCancelledError, or ResultTimeoutError when the job has not ended
        within ``timeout``; without one it waits as long as it takes.
        """
        limit = None if timeout is None else read_duration(timeout, "timeout")
        return cast("R_co", await self._sessions.run(lambda session: self._wait(session, limit)))

    def result_sync(self, timeout: Duration | None = None) -> R_co:
        """As ``result``; blocks the thread."""
        limit = None if timeout is None else read_duration(timeout, "timeout")
        return cast("R_co", self._sessions.run_sync(lambda session: self._wait(session, limit)))

    async def status(self) -> JobStatus:
        """The status now. Raises JobNotFoundError when the job was removed."""
        return await self._sessions.run(self._read_status)

    def status_sync(self) -> JobStatus:
        """As ``status``; blocks the thread."""
        return self._sessions.run_sync(self._read_status)

    async def cancel(self) -> None:
        """Cancel the job, also while it runs. Raises JobEndedError when it has ended."""
        await self._sessions.run(self._cancel)

    def cancel_sync(self) -> None:
        """As ``cancel``; blocks the thread."""
        self._sessions.run_sync(self._cancel)

    async def retry(self) -> "JobHandle[R_co]":
        """Submit the failed job again, as a new job; returns its handle.

        Raises ConflictError when the job has not failed.
        """
        return await self._sessions.run(self._retry)

    def retry_sync(self) -> "JobHandle[R_co]":
        """As ``retry``; blocks the thread."""
        return self._sessions.run_sync(self._retry)

    async def why(self) -> Explanation:
        """Why the job ran, did not run, waits or will run."""
        return await self._sessions.run(self._explain)

    def why_sync(self) -> Explanation:
        """As ``why``; blocks the thread."""
        return self._sessions.run_sync(self._explain)

    async def _wait(self, session: Session, limit: timedelta | None) -> Any:
        if limit is None:
            return await self._wait_for_end(session)
        try:
            async with timeout_after(session.clock, limit):
                return await self._wait_for_end(session)
        except TimeoutError:
            raise ResultTimeoutError(self.id, limit) from None

    async def _wait_for_end(self, session: Session) -> Any:
        job = await wait_for_end(session.store, session.clock, self.tenant, self.id)
        ended = await read_end(session.store, job)
        try:
            return self._signature.decode_result(ended.result)
        except ValidationError as error:
            raise InvalidResultError(self.id, self._signature.name, str(error)) from error

    async def _read_status(self, session: Session) -> JobStatus:
        return (await self._read(session)).status

    async def _read(self, session: Session) -> Job:
        found = await session.store.get(self.tenant, [self.id])
        if self.id not in found:
            raise JobNotFoundError(self.id)
        return found[self.id]

    async def _cancel(self, session: Session) -> None:
        reason = "cancelled by its handle"
        await cancel_jobs(session.as_rail(self.tenant), self.id, reason, ends_series=False)

    async def _retry(self, session: Session) -> "JobHandle[R_co]":
        letters = DeadLetters(session.store, self.tenant, clock=session.clock)
        try:
            retried = await letters.retry(self.id)
        except JobNotFoundError:
            state = find_state(await self._read(session), session.clock.now())
            raise ConflictError(
                f"Job {self.id} is {state}; only a failed job can be retried", {"jobId": self.id}
            ) from None
        new_id = retried.replacements[self.id]
        return JobHandle(self._sessions, self._signature, new_id, self.tenant)

    async def _explain(self, session: Session) -> Explanation:
        return await explain_job(session.store, session.clock, self.tenant, self.id)
