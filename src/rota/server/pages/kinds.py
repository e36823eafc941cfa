"""The kinds page, and a page for each kind: throughput, failures and run time."""

from typing import Any, NamedTuple

from starlette.responses import Response

from rota.errors import InvalidInputError, NotFoundError
from rota.jobs.fields import read_word
from rota.server.pages.charts import draw_spark
from rota.server.pages.overview import draw_durations, draw_throughput, format_ms
from rota.server.pages.ranges import Spans, offer_ranges, read_spans
from rota.server.pages.responses import stream_page
from rota.server.pages.visit import Visit
from rota.telemetry.counters import OTHER
from rota.telemetry.stats import NO_DURATIONS


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
    durations = sum((it.handler for it in stats), NO_DURATIONS)
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


def _show(milliseconds: float | None) -> str:
    return "" if milliseconds is None else format_ms(milliseconds)
