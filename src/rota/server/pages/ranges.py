"""The range of time that charts show, from 15 minutes to 30 days: its statistics and charts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from rota.server.pages.charts import Chart, Frame, Series, draw_lines, stack_bars
from rota.server.pages.formats import format_count, format_ms
from rota.server.pages.visit import Visit
from rota.telemetry.stats import (
    HOURS,
    MINUTES,
    NO_DURATIONS,
    DurationStats,
    MinuteStats,
    PartStats,
    Resolution,
    add_parts,
    read_stats,
)

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class Range(NamedTuple):
    """A range that a page offers. Its charts have one bar or point for each ``step``."""

    name: str
    label: str
    lasting: timedelta
    step: timedelta
    step_label: str
    resolution: Resolution
    format: str


RANGES = {
    it.name: it
    for it in (
        Range("15m", "15 minutes", 15 * _MINUTE, _MINUTE, "minute", MINUTES, "%H:%M"),
        Range("1h", "hour", _HOUR, _MINUTE, "minute", MINUTES, "%H:%M"),
        Range("6h", "6 hours", 6 * _HOUR, 5 * _MINUTE, "5 minutes", MINUTES, "%H:%M"),
        Range("1d", "24 hours", _DAY, _HOUR, "hour", HOURS, "%H:%M"),
        Range("7d", "7 days", 7 * _DAY, 3 * _HOUR, "3 hours", HOURS, "%a %H:%M"),
        Range("30d", "30 days", 30 * _DAY, 12 * _HOUR, "12 hours", HOURS, "%d %b"),
    )
}
DEFAULT = "1h"


class Spans(NamedTuple):
    """The statistics of a range, one for each step, with labels in the zone of the pages."""

    range: Range
    stats: Sequence[MinuteStats]
    labels: Sequence[str]
    zone: str

    @property
    def offered(self) -> list[tuple[str, str]]:
        """The names of all ranges, and their labels on the page."""
        named = RANGES.values()
        return [(it.name, f"1 {it.label}" if it.name == DEFAULT else it.label) for it in named]

    def only(self, accepts: Callable[[PartStats], bool]) -> "Spans":
        """The counts and run times of some parts; the rest is not counted by kind and queue."""
        return self._replace(stats=[_take_parts(it, accepts) for it in self.stats])


def _take_parts(minute: MinuteStats, accepts: Callable[[PartStats], bool]) -> MinuteStats:
    parts = tuple(it for it in minute.parts if accepts(it))
    return MinuteStats(
        at=minute.at,
        succeeded=sum(it.succeeded for it in parts),
        failed=sum(it.failed for it in parts),
        dead=sum(it.dead for it in parts),
        handler=sum((it.handler for it in parts), NO_DURATIONS),
        parts=parts,
    )


def list_parts(stats: Iterable[MinuteStats]) -> Iterator[PartStats]:
    return (part for each in stats for part in each.parts)


def sum_kinds(parts: Iterable[PartStats]) -> dict[str, PartStats]:
    """What the attempts of each kind did, in all queues together."""
    found: dict[str, PartStats] = {}
    for part in parts:
        known = found.get(part.kind, PartStats(part.kind, ""))
        (found[part.kind],) = add_parts((known,), [replace(part, queue="")])
    return found


def count_ended(
    stats: Sequence[MinuteStats], name_of: Callable[[PartStats], str]
) -> defaultdict[str, list[int]]:
    """The attempts that ended in each step, by queue or kind; nothing if none did."""
    ended: defaultdict[str, list[int]] = defaultdict(list)
    for at, minute in enumerate(stats):
        for part in minute.parts:
            counts = ended[name_of(part)]
            counts.extend([0] * (len(stats) - len(counts)))
            counts[at] += part.succeeded + part.failed
    return ended


def choose_range(visit: Visit) -> Range:
    """The range in the address; the default for an unknown one."""
    return RANGES.get(visit.ask("range"), RANGES[DEFAULT])


async def load_stats(visit: Visit, chosen: Range) -> tuple[list[MinuteStats], datetime]:
    """The statistics of a range, up to now, and when it begins."""
    until = chosen.resolution.start_of(visit.now) + chosen.resolution.period
    since = until - chosen.lasting

    async def load() -> list[MinuteStats]:
        return await read_stats(visit.store, visit.tenant, since, until, chosen.resolution)

    return await visit.cached(f"stats {chosen.name} {until}", load), since


async def read_spans(visit: Visit) -> Spans:
    """The statistics of the chosen range, up to now."""
    chosen = choose_range(visit)
    found, since = await load_stats(visit, chosen)
    stats = sum_spans(found, since, chosen)
    walls = [it.at.astimezone(visit.shown_zone) for it in stats]
    return Spans(chosen, stats, [it.strftime(chosen.format) for it in walls], f"{walls[-1]:%Z}")


def sum_spans(found: Sequence[MinuteStats], since: datetime, chosen: Range) -> list[MinuteStats]:
    """One entry for every step, even without any activity."""
    count = chosen.lasting // chosen.step
    spans = [MinuteStats(at=since + index * chosen.step) for index in range(count)]
    for minute in found:
        index = (minute.at - since) // chosen.step
        spans[index] += minute
    return spans


def make_frame(name: str, title: str, summary: str, spans: Spans) -> Frame:
    return Frame(name, title, summary, spans.labels, zone=spans.zone)


def draw_throughput(spans: Spans, *, is_whole: bool = True) -> Chart:
    """Attempts by outcome in each span; held-back ones are counted for all queues only."""
    stats = spans.stats
    succeeded = sum(each.succeeded for each in stats)
    failed = sum(each.failed for each in stats)
    summary = (
        f"{format_count(succeeded)} succeeded, {format_count(failed)} failed "
        f"in the last {spans.range.label}"
    )
    frame = make_frame("throughput", f"Throughput per {spans.range.step_label}", summary, spans)
    series = [
        Series("succeeded", "good", [each.succeeded for each in stats]),
        Series("failed", "bad", [each.failed for each in stats]),
        Series("held back", "held", [each.deferred for each in stats]),
    ]
    return stack_bars(frame, series if is_whole else series[:2])


def draw_durations(
    name: str, title: str, durations: Sequence[DurationStats], spans: Spans
) -> Chart:
    """The median and the 95th and 99th percentile in each span."""
    whole = sum(durations, DurationStats())
    summary = f"no job ran in the last {spans.range.label}"
    if whole.p50_ms is not None and whole.p95_ms is not None and whole.p99_ms is not None:
        summary = (
            f"median {format_ms(whole.p50_ms)}, 95 % within {format_ms(whole.p95_ms)}, "
            f"99 % within {format_ms(whole.p99_ms)}"
        )
    frame = make_frame(name, title, summary, spans)._replace(format=format_ms, is_whole=False)
    return draw_lines(
        frame,
        [
            Series("median", "line-1", [each.p50_ms for each in durations]),
            Series("95 % within", "line-2", [each.p95_ms for each in durations]),
            Series("99 % within", "line-3", [each.p99_ms for each in durations]),
        ],
    )
