"""What every handler of the service works with."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import NamedTuple

from rota.auth.masking import SECRET_WORDS
from rota.clock.protocol import Clock
from rota.jobs import JobId
from rota.jobs.identity import make_job_id
from rota.ops.leases import HttpLeases
from rota.server.guarding.waiting import WaitingQuota
from rota.server.metrics import MetricsBoard
from rota.stores.opened import OpenStore

_BITS_OF_AN_ID = 62


class Surroundings(NamedTuple):
    """The store, the time and the chance of a server; settings are added beside them."""

    store: OpenStore
    clock: Clock
    draw_bits: Callable[[int], int]
    metrics: MetricsBoard
    quota: WaitingQuota | None = None
    desk: HttpLeases | None = None
    masked_words: Collection[str] = SECRET_WORDS

    def make_id(self, now: datetime) -> JobId:
        return make_job_id(now, self.draw_bits(_BITS_OF_AN_ID))

    async def make_room(self, tenant: str, job_count: int = 1) -> None:
        """To be called before jobs are kept; QuotaExceededError when too many wait already."""
        if self.quota is not None:
            await self.quota.admit(tenant, job_count)
