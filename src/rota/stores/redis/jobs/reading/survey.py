"""``survey``: how full each queue is."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from rota.jobs import format_instant, parse_instant
from rota.stores.protocol import QueueDepth
from rota.stores.redis.database import Database
from rota.stores.redis.scripts import load_script

SURVEY = load_script(__package__, "survey")

_COUNTED = {"U": "running_count", "D": "dead_count"}


async def survey(database: Database, now: datetime, tenant: str | None) -> list[QueueDepth]:
    """The depths of all queues, of all tenants together or of one."""
    arguments = (format_instant(now), tenant or "")
    lanes, counts, stalled = await database.read(SURVEY, database.keys.jobs, arguments)
    depths: defaultdict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    oldest: dict[str, str] = {}
    for name, due_count, later_count, first_at in lanes:
        queue, first = name.decode(), first_at.decode()
        depths[queue]["due_count"] += due_count
        depths[queue]["later_count"] += later_count
        if due_count:
            oldest[queue] = min(first, oldest.get(queue, first))
    for code, owner, queue, number in _split(counts):
        if tenant is None or owner == tenant:
            depths[queue][_COUNTED[code]] += number
    for owner, name in zip(stalled[::2], stalled[1::2], strict=True):
        if tenant is None or owner.decode() == tenant:
            depths[name.decode()]["stalled_count"] += 1
    return [
        QueueDepth(
            queue=queue,
            oldest_due_at=parse_instant(oldest[queue]) if queue in oldest else None,
            **depths[queue],
        )
        for queue in sorted(depths)
    ]


def _split(counts: Sequence[bytes]) -> Iterator[tuple[str, str, str, int]]:
    """Code, tenant, queue and number."""
    for field, number in zip(counts[::2], counts[1::2], strict=True):
        text = field.decode()
        tenant, queue, _ = text[1:].split("\0")
        yield text[0], tenant, queue, int(number)
