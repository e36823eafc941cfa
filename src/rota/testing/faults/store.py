"""A whole store, struck by faults."""

from datetime import datetime
from typing import Any, Self

from rota.clock.protocol import Clock
from rota.stores.protocol import DocumentStore, Reach
from rota.testing.faults.documents import DocumentVerbs
from rota.testing.faults.jobs import JobQuestions, JobVerbs
from rota.testing.faults.plan import Fault, Faults, StoreCall
from rota.testing.faults.striking import Striker


class FaultyStore(DocumentVerbs, JobVerbs, JobQuestions):
    """Another store, struck by faults. Closing never fails, and closes the other store.

    It has the verbs that the other store has: those of documents, and those of jobs and of shared
    transactions where that has them. A delay is waited for on ``clock``. ``call_count`` tells how
    many calls there were and ``injected`` what befell which, so that a test can show that its
    faults were reached.
    """

    def __init__(self, store: DocumentStore, clock: Clock, faults: Faults) -> None:
        self.reach: Reach = store.reach
        self._striker = Striker(clock, faults)
        whole: Any = store  # one with fewer verbs is not asked for them
        self._documents = self._jobs = self._whole = whole

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def call_count(self) -> int:
        return self._striker.call_count

    @property
    def injected(self) -> list[tuple[StoreCall, Fault]]:
        return self._striker.injected

    async def read_clock(self) -> datetime | None:
        """As the other store, unless struck."""
        shown: datetime | None = await self._striker.suffer("read_clock", self._whole.read_clock)
        return shown

    async def close(self) -> None:
        """Close the other store."""
        await self._documents.close()
