"""The kinds page, and a page for each kind: throughput, failures and run time."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from starlette.responses import Response

from rota.errors import InvalidInputError, NotFoundError
from rota.jobs.fields import read_word
from rota.server.pages.charts import draw_spark
from rota.server.pages.overview import draw_durations, draw_throughput, format_ms
from rota.server.pages.ranges import RANGES, Spans, load_stats, offer_ranges, read_spans
from rota.server.pages.responses import stream_page
from rota.server.pages.visit import Visit
from rota.telemetry.counters import OTHER
from rota.telemetry.stats import NO_DURATIONS, DurationStats, MinuteStats

FEWEST_COMPARED = 20
"""The number of runs from which on 95 % of them can be told from all."""

_USUAL_RANGE = RANGES["7d"]
_MILLISECOND = timedelta(milliseconds=1)


class KindRow(NamedTuple):
    """What the attempts of a kind did in the range, and how long they ran, in words."""

    kind: str
    succeeded: int
    failed: int
    dead: int
    failed_share: str
    spark: str
    total: str
    median: str
    within_95: str
    within_99: str

    @property
    def is_rest(self) -> bool:
        """Whether it stands for the kinds that are not counted by themselves."""
        return self.kind == OTHER


class UsualRun(NamedTuple):
    """How long the attempts of a kind took in the range with this label."""

    durations: DurationStats
    median: str
    within_95: str
    label: str
    link: str

    def is_exceeded_by(self, length: timedelta) -> bool:
        """Whether an attempt of this length takes longer than 95 % of them."""
        longest = self.durations.p95_ms
        has_many = self.durations.count >= FEWEST_COMPARED
        return has_many and longest is not None and length > longest * _MILLISECOND


async def find_usual_run(visit: Visit, kind: str) -> UsualRun | None:
    """How long jobs of a kind usually run; None if no run of it was counted by itself."""
    found, _ = await load_stats(visit, _USUAL_RANGE)
    durations = _sum_run_times(kind, found)
    if kind == OTHER or not durations.count:
        return None
    return UsualRun(
        durations,
        _show(durations.p50_ms),
        _show(durations.p95_ms),
        _USUAL_RANGE.label,
        visit.link("kinds", kind, range=_USUAL_RANGE.name),
    )


async def show_kinds(visit: Visit) -> Response:
    return await stream_page(visit, "kinds.html", lambda: _read_kinds(visit), page="kinds")


async def _read_kinds(visit: Visit) -> dict[str, Any]:
    spans = await read_spans(visit)
    names = {part.kind for minute in spans.stats for part in minute.parts}
    rows = [_make_row(name, spans) for name in names]
    return {
        "rows": sorted(rows, key=lambda it: (it.is_rest, -it.succeeded - it.failed, it.kind)),
        "range": spans.range.name,
        "label": spans.range.label,
        "ranges": offer_ranges(),
        "link_range": lambda chosen: visit.link("kinds", range=chosen),
    }


async def show_kind(visit: Visit) -> Response:
    try:
        kind = read_word(visit.request.path_params["kind"], "kind")
    except InvalidInputError as error:
        raise NotFoundError("This kind does not exist.") from error
    return await stream_page(
        visit, "kind.html", lambda: _read_kind(visit, kind), page="kinds", kind=kind
    )


async def _read_kind(visit: Visit, kind: str) -> dict[str, Any]:
    spans = await read_spans(visit)
    ours = spans.only(lambda part: part.kind == kind)
    return {
        "row": _make_row(kind, spans),
        "queues": sorted({part.queue for minute in ours.stats for part in minute.parts}),
        "charts": [
            draw_throughput(ours, is_whole=False),
            draw_durations("run", "Run time", [it.handler for it in ours.stats], ours),
        ],
        "range": spans.range.name,
        "label": spans.range.label,
        "ranges": offer_ranges(),
        "link_range": lambda chosen: visit.link("kinds", kind, range=chosen),
    }


def _make_row(kind: str, spans: Spans) -> KindRow:
    stats = spans.only(lambda part: part.kind == kind).stats
    succeeded, failed = sum(it.succeeded for it in stats), sum(it.failed for it in stats)
    durations = _sum_run_times(kind, spans.stats)
    return KindRow(
        kind,
        succeeded,
        failed,
        sum(it.dead for it in stats),
        f"{failed / (succeeded + failed):.1%}".replace("%", " %") if failed else "",
        draw_spark([it.succeeded + it.failed for it in stats]),
        format_ms(durations.sum_ms) if durations.count else "",
        *(_show(each) for each in (durations.p50_ms, durations.p95_ms, durations.p99_ms)),
    )


def _sum_run_times(kind: str, stats: Iterable[MinuteStats]) -> DurationStats:
    ours = (part.handler for each in stats for part in each.parts if part.kind == kind)
    return sum(ours, NO_DURATIONS)


def _show(milliseconds: float | None) -> str:
    return "" if milliseconds is None else format_ms(milliseconds)
