"""Rota's backend in the place of Django's two: loaded once Django is configured."""

from typing import Any

from rota.app import Rota
from rota.django.backend import RotaBackend
from rota.django.execution import register_tasks
from rota.jobs import RetryPolicy
from rota.session import Session

SHARED = Rota("memory://")


class Stored(RotaBackend):
    """Rota's backend, with the two names that tests of the dummy backend use."""

    app = SHARED

    @property
    def results(self) -> list[Any]:
        return SHARED.sessions.run_sync(self._list)

    def clear(self) -> None:
        SHARED.sessions.run_sync(self._delete_all)

    async def _list(self, session: Session) -> list[Any]:
        page = await session.store.find(self.tenant, limit=100)
        return [await self._read(session, job.id) for job in page.items]

    async def _delete_all(self, session: Session) -> None:
        for job in (await session.store.find(self.tenant, limit=100)).items:
            await session.store.delete(self.tenant, job.id)


class Immediate(Stored):
    """Rota's backend; a worker runs each task at once, without retries."""

    def __init__(self, alias: str, params: Any) -> None:
        super().__init__(alias, params)
        self.retry = RetryPolicy(max_attempts=1)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        SHARED.sessions.run_sync(self._work)
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = await super().aenqueue(task, args, kwargs)
        await SHARED.sessions.run(self._work)
        await result.arefresh()
        return result

    async def _work(self, session: Session) -> None:
        worker = SHARED.worker(store=session.store, clock=session.clock)
        register_tasks(worker, self)
        await worker.run_once()
