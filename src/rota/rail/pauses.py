"""Which series are paused, over all tenants: since when, by whom and why.

The jobs of a series say that it is paused. These documents name the paused series of all tenants,
so that they are found without reading every job.
"""

from datetime import datetime

import msgspec

from rota.jobs import Job, JobId
from rota.stores.protocol import DocumentStore, DocumentWrite

PAUSES = "series.paused"
"""The collection; the key is ``tenant/series``."""

ROUND_LIMIT = 5
"""How often a write is decided again because others write the same document."""


class PausedSeries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A series that was paused. ``job_id`` is its last job at that moment."""

    tenant: str
    series_id: JobId
    job_id: JobId
    name: str
    at: datetime
    who: str = ""
    why: str = ""

    @property
    def key(self) -> str:
        return f"{self.tenant}/{self.series_id}"


async def note_pause(store: DocumentStore, job: Job, now: datetime, who: str, why: str) -> None:
    """Note that the series of this job is paused. The first pause counts until it is resumed."""
    paused = PausedSeries(
        tenant=job.tenant,
        series_id=job.origin or job.id,
        job_id=job.id,
        name=job.name,
        at=now,
        who=who,
        why=why,
    )
    await store.write_each([DocumentWrite(PAUSES, paused.key, None, msgspec.json.encode(paused))])


async def forget_pause(store: DocumentStore, tenant: str, series_id: JobId) -> None:
    """Note that the series is no longer paused."""
    key = f"{tenant}/{series_id}"
    for _ in range(ROUND_LIMIT):
        found = (await store.read(PAUSES, [key])).get(key)
        if found is None:
            return
        (version,) = await store.write_each([DocumentWrite(PAUSES, key, found.version, None)])
        if version is not None:
            return


async def find_pause(store: DocumentStore, tenant: str, series_id: JobId) -> PausedSeries | None:
    """The noted pause of a series."""
    key = f"{tenant}/{series_id}"
    found = (await store.read(PAUSES, [key])).get(key)
    return None if found is None else msgspec.json.decode(found.body, type=PausedSeries)


async def list_pauses(store: DocumentStore, tenant: str | None = None) -> list[PausedSeries]:
    """The noted pauses of a tenant, or of all, by tenant and series."""
    found = [
        msgspec.json.decode(document.body, type=PausedSeries)
        async for page in store.scan(PAUSES)
        for document in page
        if tenant is None or document.key.startswith(f"{tenant}/")
    ]
    return sorted(found, key=lambda it: it.key)
