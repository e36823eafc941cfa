"""The verbs that every backend does alike: arguments are checked and passed on here."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from rota.jobs import Attempt, Job, JobFilter, JobId, Page, check_limit
from rota.jobs.retention import Expiry
from rota.stores.kernel import edits
from rota.stores.kernel.unit import Plan
from rota.stores.opened import ClosableStore
from rota.stores.protocol import EndedPlace, Pruned, QueueDepth, check_count
from rota.triggers.zone import to_utc

Result = TypeVar("Result")
Handle = TypeVar("Handle")
Handle_contra = TypeVar("Handle_contra", contravariant=True)


class EditVerbs(ClosableStore):
    """The verbs that the kernel decides alone. For what they mean, see the protocol."""

    @abstractmethod
    async def _run_plan(self, make_plan: Callable[[], Plan[Result]]) -> Result:
        """Run a plan in a transaction, again if it must be repeated, and wake listeners."""

    async def check_insertion(self, jobs: Sequence[Job], now: datetime) -> None:
        """See ``OpenStore.check_insertion``."""
        now, asked = to_utc(now, "now"), tuple(jobs)
        await self._run_plan(lambda: edits.check_insertion(asked, now))

    async def amend(
        self, tenant: str, job_id: JobId, fields: Mapping[str, Any], now: datetime
    ) -> Job:
        """See ``JobStore.amend``."""
        asked = edits.Amendment(tenant, job_id, dict(fields), to_utc(now, "now"))
        return await self._run_plan(lambda: edits.amend(asked))

    async def delete(self, tenant: str, job_id: JobId) -> Job:
        """See ``JobStore.delete``."""
        return await self._run_plan(lambda: edits.delete(tenant, job_id))

    async def erase(self, tenant: str, job_ids: Collection[JobId], now: datetime) -> list[JobId]:
        """See ``OpenStore.erase``."""
        now, asked = to_utc(now, "now"), tuple(job_ids)
        return await self._run_plan(lambda: edits.erase(tenant, asked, now))

    async def prune(
        self,
        ended_before: datetime,
        limit: int,
        expiry: Expiry | None = None,
        after: EndedPlace | None = None,
    ) -> Pruned:
        """See ``JobStore.prune``."""
        before = to_utc(ended_before, "ended_before")
        asked = edits.Pruning(before, check_count(limit), expiry, after)
        return await self._run_plan(lambda: edits.prune(asked))


class Reads(Protocol[Handle_contra]):
    """The module of a backend that reads jobs. A filter has a tenant."""

    async def get(
        self, handle: Handle_contra, tenant: str, job_ids: Sequence[JobId], /
    ) -> dict[JobId, Job]: ...

    async def results(
        self, handle: Handle_contra, tenant: str, job_ids: Sequence[JobId], /
    ) -> dict[JobId, bytes]: ...

    async def find(
        self, handle: Handle_contra, wanted: JobFilter, cursor: str | None, limit: int, /
    ) -> Page: ...

    async def count(
        self, handle: Handle_contra, wanted: JobFilter, limit: int | None, /
    ) -> int: ...

    async def attempts(
        self, handle: Handle_contra, tenant: str, job_id: JobId, /
    ) -> list[Attempt]: ...

    async def find_dependents(
        self, handle: Handle_contra, tenant: str, job_ids: Sequence[JobId], limit: int, /
    ) -> list[Job]: ...

    async def survey(
        self, handle: Handle_contra, now: datetime, tenant: str | None, /
    ) -> list[QueueDepth]: ...


class ServerVerbs(EditVerbs, Generic[Handle]):
    """The verbs of a store on a server that only read, or that the kernel decides alone."""

    _reads: Reads[Handle]

    @abstractmethod
    async def _run(self, work: Callable[[Handle], Awaitable[Result]]) -> Result:
        """Do the work with a connection or the like, again if it must be repeated."""

    async def get(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, Job]:
        """See ``JobStore.get``."""
        wanted = tuple(job_ids)
        return await self._run(lambda handle: self._reads.get(handle, tenant, wanted))

    async def results(self, tenant: str, job_ids: Sequence[JobId]) -> dict[JobId, bytes]:
        """See ``JobStore.results``."""
        wanted = tuple(job_ids)
        return await self._run(lambda handle: self._reads.results(handle, tenant, wanted))

    async def find(
        self,
        tenant: str,
        wanted: JobFilter | None = None,
        cursor: str | None = None,
        limit: int = 20,
    ) -> Page:
        """See ``JobStore.find``."""
        check_limit(limit)
        narrowed = narrow(wanted, tenant)
        return await self._run(lambda handle: self._reads.find(handle, narrowed, cursor, limit))

    async def count(
        self, tenant: str, wanted: JobFilter | None = None, limit: int | None = None
    ) -> int:
        """See ``JobStore.count``."""
        narrowed = narrow(wanted, tenant)
        return await self._run(lambda handle: self._reads.count(handle, narrowed, limit))

    async def attempts(self, tenant: str, job_id: JobId) -> list[Attempt]:
        """See ``JobStore.attempts``."""
        return await self._run(lambda handle: self._reads.attempts(handle, tenant, job_id))

    async def find_dependents(self, tenant: str, job_ids: Sequence[JobId], limit: int) -> list[Job]:
        """See ``JobStore.find_dependents``."""
        check_count(limit)
        named = tuple(job_ids)
        return await self._run(
            lambda handle: self._reads.find_dependents(handle, tenant, named, limit)
        )

    async def survey(self, now: datetime, tenant: str | None = None) -> list[QueueDepth]:
        """See ``JobStore.survey``."""
        now = to_utc(now, "now")
        return await self._run(lambda handle: self._reads.survey(handle, now, tenant))


def narrow(wanted: JobFilter | None, tenant: str) -> JobFilter:
    """The filter for the jobs of one tenant."""
    return replace(wanted or JobFilter(), tenant=tenant)
