"""The kinds page, and a page for each kind: throughput, failures and run time."""

from datetime import timedelta
from typing import Any

from starlette.responses import Response

from rota.errors import InvalidInputError, NotFoundError
from rota.jobs.fields import read_word
from rota.server.pages.charts import draw_spark
from rota.server.pages.ranges import (
    RANGES,
    count_ended,
    draw_durations,
    draw_throughput,
    list_parts,
    load_stats,
    read_spans,
    sum_kinds,
)
from rota.server.pages.responses import stream_page
from rota.server.pages.visit import Visit
from rota.telemetry.counters import OTHER
from rota.telemetry.stats import NO_DURATIONS, DurationStats, PartStats

FEWEST_COMPARED = 20
"""With fewer runs, 95 % of them are as good as all of them."""

USUAL_RANGE = RANGES["7d"]
"""The time in which the usual run of a kind is measured."""

_MILLISECOND = timedelta(milliseconds=1)


async def find_usual_run(visit: Visit, kind: str) -> DurationStats | None:
    """How long jobs of a kind usually run; None if no run of it was counted by itself."""
    found, _ = await load_stats(visit, USUAL_RANGE)
    usual = sum((it.handler for it in list_parts(found) if it.kind == kind), NO_DURATIONS)
    return usual if usual.count and kind != OTHER else None


def is_unusual(length: timedelta, usual: DurationStats) -> bool:
    """Whether an attempt of this length takes longer than 95 % of the usual ones."""
    longest = usual.p95_ms
    has_many = usual.count >= FEWEST_COMPARED
    return has_many and longest is not None and length > longest * _MILLISECOND


async def read_kinds(visit: Visit) -> dict[str, Any]:
    spans = await read_spans(visit)
    ended = count_ended(spans.stats, lambda part: part.kind)
    kinds = sorted(
        sum_kinds(list_parts(spans.stats)).values(),
        key=lambda it: (it.kind == OTHER, -it.succeeded - it.failed, it.kind),
    )
    return {
        "spans": spans,
        "rest": OTHER,
        "rows": [(it, draw_spark(ended[it.kind])) for it in kinds],
    }


async def show_kind(visit: Visit) -> Response:
    try:
        kind = read_word(visit.part("kind"), "kind")
    except InvalidInputError as error:
        raise NotFoundError("This kind does not exist.") from error
    return await stream_page(visit, "kind.html", lambda: _read_kind(visit, kind), kind=kind)


async def _read_kind(visit: Visit, kind: str) -> dict[str, Any]:
    spans = await read_spans(visit)
    ours = spans.only(lambda part: part.kind == kind)
    return {
        "spans": spans,
        "row": sum_kinds(list_parts(ours.stats)).get(kind, PartStats(kind, "")),
        "queues": sorted({part.queue for part in list_parts(ours.stats)}),
        "charts": [
            draw_throughput(ours, is_whole=False),
            draw_durations("run", "Run time", [it.handler for it in ours.stats], ours),
        ],
    }
