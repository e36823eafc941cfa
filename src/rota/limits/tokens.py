"""Tokens are reserved before a lease, and given back when there was no use for them.

Buckets are written by compare-and-set. Whoever loses a race too often goes without, this time.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import msgspec

from rota.limits.bucket import Bucket, Taken, give_back_tokens, take_tokens
from rota.limits.document import BUCKETS, key_of
from rota.limits.record import Limit, Rate
from rota.stores.protocol import DocumentStore, DocumentWrite

MOST_RACES = 3
"""So often a bucket that others have changed meanwhile is looked at."""


class Rated(NamedTuple):
    """A rate, and the key of its bucket."""

    key: str
    rate: Rate


_Change: TypeAlias = Callable[[Rated, Bucket | None], Taken]


class Reserved(NamedTuple):
    """The tokens in hand, and each bucket as it was left, by key."""

    counts: Mapping[str, int]
    buckets: Mapping[str, Bucket]


def rated_of(limit: Limit) -> Rated | None:
    """Where the tokens of a limit are kept, if it has a rate."""
    if limit.rate is None:
        return None
    return Rated(key_of(limit.tenant, limit.queue), limit.rate)


async def reserve(
    store: DocumentStore, rates: Sequence[Rated], wanted: int, now: datetime
) -> Reserved:
    """Up to ``wanted`` tokens of each bucket."""

    def take(rated: Rated, bucket: Bucket | None) -> Taken:
        return take_tokens(rated.rate, bucket, wanted, now)

    return await _change(store, rates, take)


async def give_back(
    store: DocumentStore, rates: Sequence[Rated], unused: Mapping[str, int], now: datetime
) -> None:
    """Put back tokens that were reserved; what cannot be put back is lost, and comes with time."""

    def put(rated: Rated, bucket: Bucket | None) -> Taken:
        count = unused[rated.key]
        return Taken(count, give_back_tokens(rated.rate, bucket, count, now))

    await _change(store, [rated for rated in rates if unused.get(rated.key)], put)


async def _change(store: DocumentStore, rates: Sequence[Rated], change: _Change) -> Reserved:
    counts = dict.fromkeys((rated.key for rated in rates), 0)
    buckets: dict[str, Bucket] = {}
    for _ in range(MOST_RACES):
        if not rates:
            break
        kept = await store.read(BUCKETS, [rated.key for rated in rates])
        found = {key: _decode(document.body) for key, document in kept.items()}
        drawn = {rated.key: change(rated, found.get(rated.key)) for rated in rates}
        buckets |= {key: each.bucket for key, each in drawn.items()}
        writes = [
            DocumentWrite(
                BUCKETS,
                key,
                kept[key].version if key in kept else None,
                msgspec.json.encode(each.bucket),
            )
            for key, each in drawn.items()
            if each.token_count
        ]
        versions = dict(zip((it.key for it in writes), await store.write_each(writes), strict=True))
        counts |= {key: drawn[key].token_count for key, it in versions.items() if it is not None}
        rates = [rated for rated in rates if versions.get(rated.key, 0) is None]
    return Reserved(counts, buckets)


def _decode(body: bytes) -> Bucket | None:
    """A bucket that cannot be read counts as a full one, and is replaced."""
    try:
        return msgspec.json.decode(body, type=Bucket)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
