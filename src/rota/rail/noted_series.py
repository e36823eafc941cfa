"""The series of all tenants that are paused, and those with a dead-man switch (``alert_after``).

The jobs of a series say both. These documents name such series, so that they are found without
reading every job.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from rota.jobs import Job, JobId
from rota.jobs.recurrence import series_of
from rota.stores.documents import all_documents, change_document, find_document
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

PAUSES = "series.paused"
"""The collection of paused series; the key is ``tenant/series``."""

WATCHED_SERIES = "series.watched"
"""The collection of series with a dead-man switch; the key is ``tenant/series``."""


class PausedSeries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A series that was paused: since when, by whom and why.

    ``job_id`` is its last job at that moment.
    """

    tenant: str
    series_id: JobId
    job_id: JobId
    name: str
    at: datetime
    who: str = ""
    why: str = ""

    @property
    def key(self) -> str:
        return _key(self.tenant, self.series_id)


class WatchedSeries(msgspec.Struct, frozen=True, kw_only=True):
    """A series with a dead-man switch."""

    tenant: str
    series_id: JobId
    noted_at: datetime

    @property
    def key(self) -> str:
        return _key(self.tenant, self.series_id)


async def note_pause(store: DocumentStore, job: Job, now: datetime, who: str, why: str) -> None:
    """Note that the series of this job is paused. The first pause counts until it is resumed."""
    paused = PausedSeries(
        tenant=job.tenant,
        series_id=series_of(job),
        job_id=job.id,
        name=job.name,
        at=now,
        who=who,
        why=why,
    )
    await store.write_each([DocumentWrite(PAUSES, paused.key, None, msgspec.json.encode(paused))])


async def forget_pause(store: DocumentStore, tenant: str, series_id: JobId) -> None:
    """Note that the series is no longer paused."""
    await change_document(store, PAUSES, _key(tenant, series_id), lambda _: None)


async def find_pause(store: DocumentStore, tenant: str, series_id: JobId) -> PausedSeries | None:
    """The noted pause of a series."""
    found = await find_document(store, PAUSES, _key(tenant, series_id))
    return None if found is None else msgspec.json.decode(found.body, type=PausedSeries)


async def list_pauses(store: DocumentStore, tenant: str | None = None) -> list[PausedSeries]:
    """The noted pauses of a tenant, or of all, by tenant and series."""
    found = [
        msgspec.json.decode(document.body, type=PausedSeries)
        async for document in all_documents(store, PAUSES)
        if tenant is None or document.key.startswith(f"{tenant}/")
    ]
    return sorted(found, key=lambda it: it.key)


async def note_alerts(store: DocumentStore, jobs: Sequence[Job]) -> None:
    """Note the series among these jobs that have a dead-man switch, before they are stored."""
    watched = [
        WatchedSeries(tenant=it.tenant, series_id=series_of(it), noted_at=it.updated_at)
        for it in jobs
        if it.recurrence is not None and it.recurrence.alert_after is not None
    ]
    if watched:
        await store.write_each(
            [DocumentWrite(WATCHED_SERIES, it.key, None, msgspec.json.encode(it)) for it in watched]
        )


async def list_watched(store: DocumentStore) -> list[tuple[WatchedSeries, Document]]:
    """The series with a dead-man switch of all tenants, with their documents."""
    return [
        (msgspec.json.decode(document.body, type=WatchedSeries), document)
        async for document in all_documents(store, WATCHED_SERIES)
    ]


def _key(tenant: str, series_id: JobId) -> str:
    return f"{tenant}/{series_id}"
