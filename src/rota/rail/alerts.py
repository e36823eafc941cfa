"""The series with a dead-man switch, over all tenants: those whose rule has ``alert_after``.

The jobs of a series say when there is an alert. These documents name the series of all tenants that
have one, so that they are found without reading every job.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from rota.jobs import Job, JobId
from rota.stores.protocol import Document, DocumentStore, DocumentWrite

WATCHED_SERIES = "series.watched"
"""The collection; the key is ``tenant/series``."""


class WatchedSeries(msgspec.Struct, frozen=True, kw_only=True):
    """A series with a dead-man switch."""

    tenant: str
    series_id: JobId
    noted_at: datetime

    @property
    def key(self) -> str:
        return f"{self.tenant}/{self.series_id}"


async def note_alerts(store: DocumentStore, jobs: Sequence[Job]) -> None:
    """Note the series among these jobs that have a dead-man switch, before they are stored."""
    watched = [
        WatchedSeries(tenant=it.tenant, series_id=it.origin or it.id, noted_at=it.updated_at)
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
        async for page in store.scan(WATCHED_SERIES)
        for document in page
    ]
