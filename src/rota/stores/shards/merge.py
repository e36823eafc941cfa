"""What spans tenants, put together from the answers of the shards. Pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice

import msgspec
from msgspec.structs import replace

from rota.errors import InvalidCursorError
from rota.jobs import Job
from rota.stores.inspection import StoreInspection
from rota.stores.kernel.turns import order_turns
from rota.stores.protocol import (
    KeptDocument,
    KeptJob,
    LeasePreview,
    Portion,
    Pruned,
    QueueDepth,
    Record,
    UnreadableJob,
    expiry_key,
)
from rota.stores.shards.placement import COLLECTION, Placement
from rota.stores.survey import COUNTS, add_depths

_decode_cursor = msgspec.json.Decoder(tuple[str, str | None]).decode


def merge_expired(pages: Iterable[Sequence[Job]], limit: int) -> list[Job]:
    """The first jobs of all pages, in the order of ``find_expired``."""
    return list(islice(merge(*pages, key=expiry_key), limit))


def merge_previews(previews: Iterable[LeasePreview], after_tenant: str) -> LeasePreview:
    """The partitions of all shards in the order of their turns, and all running jobs."""
    partitions: list[tuple[str, str]] = []
    running: Counter[tuple[str, str]] = Counter()
    for each in previews:
        partitions += each.partitions
        running.update(each.running)
    turns = order_turns({tenant for tenant, _ in partitions}, after_tenant)
    position = {tenant: index for index, tenant in enumerate(turns)}
    partitions.sort(key=lambda partition: position[partition[0]])
    return LeasePreview(partitions, running)


def merge_depths(surveys: Iterable[Sequence[QueueDepth]]) -> list[QueueDepth]:
    """The depth of each queue over all shards, by name."""
    by_queue = add_depths(depth for survey in surveys for depth in survey)
    return [by_queue[queue] for queue in sorted(by_queue)]


def without_copies(
    depths: Sequence[QueueDepth], copies: Iterable[Sequence[QueueDepth]]
) -> list[QueueDepth]:
    """The depths without those of tenants that lie on another shard and have copies here."""
    left = {depth.queue: depth for depth in depths}
    for survey in copies:
        for copied in survey:
            if copied.queue in left:
                left[copied.queue] = _subtract(left[copied.queue], copied)
    return [
        depth
        for depth in left.values()
        if replace(depth, oldest_due_at=None) != QueueDepth(queue=depth.queue)
    ]


def _subtract(whole: QueueDepth, part: QueueDepth) -> QueueDepth:
    counts = {name: max(0, getattr(whole, name) - getattr(part, name)) for name in COUNTS}
    oldest = whole.oldest_due_at if whole.due_count > part.due_count else None
    return QueueDepth(queue=whole.queue, oldest_due_at=oldest, **counts)


def earliest(instants: Iterable[datetime | None]) -> datetime | None:
    """The first of these instants, if there is one."""
    return min((each for each in instants if each is not None), default=None)


def merge_pruned(answers: Sequence[Pruned]) -> Pruned:
    """The sum, and the place from which every shard can go on: the earliest.

    A shard that came further looks again at what it kept there.
    """
    return Pruned(
        sum(each.removed for each in answers),
        sum(each.looked for each in answers),
        min((each.place for each in answers if each.place is not None), default=None),
    )


def add_pruned(first: Pruned, second: Pruned) -> Pruned:
    """Two steps of one shard: the second says where to go on."""
    return Pruned(first.removed + second.removed, first.looked + second.looked, second.place)


def write_cursor(shard: str, cursor: str | None) -> str:
    """A cursor of ``dump``: a shard, and where to go on in it."""
    return msgspec.json.encode((shard, cursor)).decode()


def read_cursor(cursor: str, names: Iterable[str]) -> tuple[str, str | None]:
    """The shard and its own cursor. Raises InvalidCursorError."""
    try:
        shard, inner = _decode_cursor(cursor)
    except msgspec.DecodeError as error:
        raise InvalidCursorError("is none of this store's") from error
    if shard not in names:
        raise InvalidCursorError("is none of this store's")
    return shard, inner


def visible(portion: Portion, placement: Placement, shard: str, *, is_home: bool) -> list[Record]:
    """The records of a portion that belong to the whole store: no marks of shards, no copies."""
    return [
        record
        for record in portion.records
        if (
            is_home and record.collection != COLLECTION
            if isinstance(record, KeptDocument)
            else placement.locate(tenant_of(record)) == shard
        )
    ]


def tenant_of(record: KeptJob | UnreadableJob) -> str:
    """The tenant of a job, readable or not."""
    return record.job.tenant if isinstance(record, KeptJob) else record.tenant


def merge_inspections(inspections: Mapping[str, StoreInspection]) -> StoreInspection:
    """The state of all shards as that of one store; documents are those of the home shard."""
    home = next(iter(inspections.values()))
    each = inspections.values()
    problems = [f"shard {name}: {one.problem}" for name, one in inspections.items() if one.problem]
    counts: Counter[str] = Counter()
    for one in each:
        counts.update(one.job_counts or {})
    documents = {name: n for name, n in home.document_counts.items() if name != COLLECTION}
    sizes = [one.size for one in each if one.size is not None]
    return StoreInspection(
        "shards:" + "|".join(f"{name}={one.address}" for name, one in inspections.items()),
        "shards",
        version=", ".join(dict.fromkeys(f"{one.kind} {one.version}".strip() for one in each)),
        exists=all(one.exists for one in each),
        applied=home.applied,
        pending=next((one.pending for one in each if one.pending), ()),
        problem="; ".join(problems) or None,
        size=sum(sizes) if sizes else None,
        document_counts=documents,
        job_counts=None if all(one.job_counts is None for one in each) else counts,
        set_aside_job_count=sum(one.set_aside_job_count for one in each),
        pinned_by=next((one.pinned_by for one in each if one.pinned_by), None),
        notes=tuple(note for one in each for note in one.notes),
    )
