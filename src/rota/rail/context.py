"""What the functions of one rail share."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from rota.clock.protocol import Clock
from rota.jobs import RAIL_RETRIES, JobId, RetryPolicy, make_job_id
from rota.stores.protocol import DocumentStore, JobStore

_BITS_OF_AN_ID = 62


class RailStore(DocumentStore, JobStore, Protocol):
    """A store of documents and jobs, as every opened store is."""


class RailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for jobs that do not set their own values."""

    queue: str = "default"
    retry_policy: RetryPolicy = RAIL_RETRIES


class RailContext(NamedTuple):
    """The store, clock and tenant of a rail."""

    store: RailStore
    tenant: str
    clock: Clock
    settings: RailSettings
    draw_bits: Callable[[int], int]

    def make_id(self, now: datetime) -> JobId:
        return make_job_id(now, self.draw_bits(_BITS_OF_AN_ID))
