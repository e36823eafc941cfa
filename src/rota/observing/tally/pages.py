"""Tallies as documents: one for the hour of a tenant, which all workers add to.

A key begins with the hour, so that what is too old stands before everything else.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from rota.observing.tally.minute import MinuteTally
from rota.stores.protocol import Document, DocumentStore, DocumentWrite
from rota.triggers.zone import to_utc

TALLIES = "tallies"
"""The collection; a key is the hour, a slash and the tenant."""

RETENTION = timedelta(hours=48)
"""How long tallies are kept."""

_HOUR = timedelta(hours=1)
_HOUR_FORMAT = "%Y-%m-%dT%H"

Minutes = Mapping[datetime, MinuteTally]


class _Body(msgspec.Struct, frozen=True):
    minutes: list[MinuteTally]


def key_of(tenant: str, at: datetime) -> str:
    return f"{at.strftime(_HOUR_FORMAT)}/{tenant}"


def encode(minutes: Iterable[MinuteTally]) -> bytes:
    return msgspec.json.encode(_Body(sorted(minutes, key=lambda it: it.at)))


def decode(document: Document | None) -> Minutes:
    """What the document tells; nothing, when there is none or it cannot be read."""
    if document is None:
        return {}
    try:
        return {it.at: it for it in msgspec.json.decode(document.body, type=_Body).minutes}
    except msgspec.DecodeError:
        return {}


def add_minutes(kept: Minutes, more: Sequence[MinuteTally]) -> Minutes:
    """Both together, minute by minute."""
    total = dict(kept)
    for tally in more:
        found = total.get(tally.at)
        total[tally.at] = tally if found is None else found + tally
    return total


async def read_tallies(
    store: DocumentStore, tenant: str, since: datetime, until: datetime
) -> list[MinuteTally]:
    """The tenant's minutes that began at ``since`` or later, and before ``until``; in order.

    A minute in which nothing ended, and nobody looked, is left out. No more than the last two days
    before ``until`` are read, however long ago ``since`` is. Workers write what they counted every
    few seconds.
    """
    until = to_utc(until, "until")
    since = max(to_utc(since, "since"), until - RETENTION)
    keys = [key_of(tenant, hour) for hour in _hours(since, until)]
    documents = await store.read(TALLIES, keys)
    tallies = [
        tally
        for key in keys
        for tally in decode(documents.get(key)).values()
        if since <= tally.at < until
    ]
    return sorted(tallies, key=lambda it: it.at)


def _hours(since: datetime, until: datetime) -> Iterator[datetime]:
    hour = since.replace(minute=0, second=0, microsecond=0)
    while hour < until:
        yield hour
        hour += _HOUR


async def prune_tallies(store: DocumentStore, now: datetime) -> int:
    """Remove the documents of hours that are too long ago, and look at hardly any other."""
    oldest = key_of("", now.astimezone(UTC) - RETENTION - _HOUR)
    removed_count = 0
    async for page in store.scan(TALLIES):
        old = [document for document in page if document.key < oldest]
        if old:
            removals = [DocumentWrite(TALLIES, it.key, it.version, None) for it in old]
            removed_count += sum(it is not None for it in await store.write_each(removals))
        if len(old) < len(page):
            break
    return removed_count
