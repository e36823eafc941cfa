"""What was set as a goal for this contest, and whether this run has reached it."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from bench.queue_contest.contestants import (
    AGENDA,
    APSW,
    ARQ,
    BULLMQ,
    CELERY,
    DOOR_RESULTS,
    DOOR_SYNC,
    DRAMATIQ,
    GRAPHILE,
    GRAPHILE_DEFAULTS,
    HUEY,
    HUEY_OFF,
    MONGO_LOOP,
    MYSQL_LOOP,
    PGBENCH,
    PGQUEUER,
    PULSE,
    ROTA,
    ROTA_BEFORE,
    ROTA_DOOR,
    ROTA_RESULTS,
    SAQ,
    TASKIQ,
    Measure,
    StoreKind,
    list_contestants,
)
from bench.queue_contest.race import Results

_NO_PEERS = (
    *(ROTA, ROTA_RESULTS, ROTA_DOOR, DOOR_RESULTS, DOOR_SYNC, ROTA_BEFORE, HUEY_OFF),
    *(MONGO_LOOP, MYSQL_LOOP),
)

_LATENCY_PEERS = {
    StoreKind.POSTGRES: (PGQUEUER, GRAPHILE, GRAPHILE_DEFAULTS),
    StoreKind.SQLITE: (HUEY,),
    StoreKind.REDIS: (BULLMQ, DRAMATIQ, TASKIQ, SAQ),
    StoreKind.MONGO: (AGENDA, PULSE),
}

RESAMPLES = 2_000
TAIL = 0.05
"""Of the resamples at each end that lie outside the interval: it holds nine in ten."""


@dataclass(frozen=True)
class Ratio:
    """A median, and between which values it lies in nine of ten resamples."""

    value: float
    low: float
    high: float


def compare_runs(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """The median of the ratios, round by round; None if one has no runs.

    Within a round the contestants are measured one after the other, so that what drifts more slowly
    cancels out.
    """
    return spread_of([one / other for one, other in zip(ours, theirs, strict=False) if other])


def spread_of(runs: Sequence[float]) -> Ratio | None:
    """The median of a series of runs, and between which values it lies; None without runs."""
    if not runs:
        return None
    chance = Random(len(runs))  # the same runs always give the same interval
    medians = sorted(statistics.median(chance.choices(runs, k=len(runs))) for _ in range(RESAMPLES))
    outside = int(TAIL * RESAMPLES)
    return Ratio(statistics.median(runs), medians[outside], medians[-outside - 1])


@dataclass(frozen=True)
class Verdict:
    """A ratio and the goal for it; ``is_least`` when it must not be lower, else not higher."""

    words: str
    goal: float
    ratio: Ratio
    is_least: bool = True

    @property
    def is_reached(self) -> bool:
        value = self.ratio.value
        return value >= self.goal if self.is_least else value <= self.goal

    @property
    def is_undecided(self) -> bool:
        """Whether the runs differ too much to tell."""
        return self.ratio.low <= self.goal <= self.ratio.high


def judge(results: Results) -> list[Verdict]:
    """Every goal for which both sides were measured."""
    return [
        *_on_postgres(results),
        *_latency(results),
        *_on_sqlite(results),
        *_on_redis(results),
        *_on_mongo(results),
        *_on_mysql(results),
        *_doors(results),
        *_doors_against_peers(results),
        *_other_checkout(results),
    ]


def _doors(results: Results) -> Iterator[Verdict]:
    """The front door beside the bare engine that does the same work."""
    for store in StoreKind:
        for measure in (Measure.ENQUEUE, Measure.BULK, Measure.DRAIN):
            rate = _rates(results, measure, store)
            words = f"{store} {measure}: the door against the engine"
            yield from judge_runs(words, 0.95, rate(ROTA_DOOR), rate(ROTA))
            words = f"{store} {measure}: the door against the engine, both with results"
            yield from judge_runs(words, 0.95, rate(DOOR_RESULTS), rate(ROTA_RESULTS))
            words = f"{store} {measure}: the door with results against the engine without"
            yield from judge_runs(words, 0.85, rate(DOOR_RESULTS), rate(ROTA))


def _doors_against_peers(results: Results) -> Iterator[Verdict]:
    """The front door, which keeps jobs through a crash, beside the best peer that does."""
    for store in StoreKind:
        peers = [
            each.name
            for each in list_contestants()
            if each.store is store and not each.is_limit and each.name not in _NO_PEERS
        ]
        for measure in (Measure.ENQUEUE, Measure.BULK, Measure.DRAIN, Measure.DRAIN_TWO):
            rate = _rates(results, measure, store)
            best = _best(map(rate, peers))
            words = f"{store} {measure}: the door against the best peer"
            yield from judge_runs(words, 1.0, rate(ROTA_DOOR), best)
            words = f"{store} {measure}: the door with results against the best peer"
            yield from judge_runs(words, 1.0, rate(DOOR_RESULTS), best)
            words = f"{store} {measure}: enqueue_sync against the best peer"
            yield from judge_runs(words, 1.0, rate(DOOR_SYNC), best)


def _on_postgres(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.POSTGRES)
    two = _rates(results, Measure.DRAIN_TWO, StoreKind.POSTGRES)
    single = _rates(results, Measure.ENQUEUE, StoreKind.POSTGRES)
    bulk = _rates(results, Measure.BULK, StoreKind.POSTGRES)
    yield from judge_runs("PostgreSQL drain against PgQueuer", 1.5, drain(ROTA), drain(PGQUEUER))
    yield from judge_runs("PostgreSQL drain against Graphile", 1.0, drain(ROTA), drain(GRAPHILE))
    yield from judge_runs("PostgreSQL drain against pgbench", 0.6, drain(ROTA), drain(PGBENCH))
    yield from judge_runs("PostgreSQL drain, two against one", 1.0, two(ROTA), drain(ROTA))
    yield from judge_runs(
        "PostgreSQL enqueue one by one against PgQueuer", 1.0, single(ROTA), single(PGQUEUER)
    )
    best = _best([bulk(PGQUEUER), bulk(GRAPHILE)])
    yield from judge_runs("PostgreSQL bulk against the best peer", 1.2, bulk(ROTA), best)


def _latency(results: Results) -> Iterator[Verdict]:
    for store, peers in _LATENCY_PEERS.items():
        for name in ("p50_ms", "p99_ms"):
            ours, *others = (
                results.values(f"{peer} on {store}", Measure.LATENCY, name)
                for peer in (ROTA, *peers)
            )
            best = min((each for each in others if each), key=statistics.median, default=())
            words = f"{store} latency {name[:3]} against the best peer"
            yield from judge_runs(words, 1.0, ours, best, is_least=False)


def _on_sqlite(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.SQLITE)
    yield from judge_runs(
        "SQLite drain, durable, against Huey that is not", 1.5, drain(ROTA), drain(HUEY_OFF)
    )
    yield from judge_runs("SQLite drain against the raw statements", 0.6, drain(ROTA), drain(APSW))


def _on_redis(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.REDIS)
    bulk = _rates(results, Measure.BULK, StoreKind.REDIS)
    single = _rates(results, Measure.ENQUEUE, StoreKind.REDIS)
    yield from judge_runs("Redis drain against BullMQ", 4.0, drain(ROTA), drain(BULLMQ))
    best = _best(map(single, (BULLMQ, CELERY, DRAMATIQ, TASKIQ, SAQ, ARQ)))
    yield from judge_runs("Redis enqueue one by one, best peer", 1.0, single(ROTA), best)
    yield from judge_runs("Redis bulk against BullMQ", 1.0, bulk(ROTA), bulk(BULLMQ))


def _on_mongo(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.MONGO)
    yield from judge_runs(
        "MongoDB drain against find_one_and_update", 5.0, drain(ROTA), drain(MONGO_LOOP)
    )
    for peer in (AGENDA, PULSE):
        yield from judge_runs(f"MongoDB drain against {peer}", 1.0, drain(ROTA), drain(peer))


def _on_mysql(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.MYSQL)
    yield from judge_runs(
        "MariaDB drain against SKIP LOCKED, one at a time", 3.0, drain(ROTA), drain(MYSQL_LOOP)
    )


def _rates(results: Results, measure: Measure, store: StoreKind) -> Callable[[str], list[float]]:
    return lambda name: results.values(f"{name} on {store}", measure, "rate")


def _best(runs: Iterable[Sequence[float]]) -> Sequence[float]:
    return max((each for each in runs if each), key=statistics.median, default=())


def judge_runs(
    words: str,
    goal: float,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    is_least: bool = True,
) -> Iterator[Verdict]:
    """The verdict about two series of runs, if both have runs."""
    ratio = compare_runs(ours, theirs)
    if ratio is not None:
        yield Verdict(words, goal, ratio, is_least)


@dataclass(frozen=True)
class Comparison:
    """One figure of the other checkout and of this one, as medians; and the ratio."""

    words: str
    before: float
    now: float
    ratio: Ratio
    is_rate: bool = True


_CPU_FIGURES = (
    (Measure.ENQUEUE, "client"),
    (Measure.ENQUEUE, "server"),
    (Measure.DRAIN, "worker"),
    (Measure.DRAIN, "server"),
)


def compare_checkouts(results: Results) -> Iterator[Comparison]:
    """Every figure that was measured of both checkouts: rates, latency, and CPU a job."""
    for store in StoreKind:
        for measure in (Measure.ENQUEUE, Measure.BULK, Measure.DRAIN, Measure.DRAIN_TWO):
            yield from _compare_figure(results, store, measure, "rate", f"{measure}, jobs/s")
        for name in ("p50", "p99"):
            words = f"latency {name}, ms"
            yield from _compare_figure(results, store, Measure.LATENCY, f"{name}_ms", words)
        for measure, part in _CPU_FIGURES:
            words = f"{measure}, CPU of the {part}, us a job"
            yield from _compare_figure(results, store, measure, f"{part}_us", words)


def _compare_figure(
    results: Results, store: StoreKind, measure: Measure, name: str, words: str
) -> Iterator[Comparison]:
    before, now = (
        results.values(f"{who} on {store}", measure, name) for who in (ROTA_BEFORE, ROTA)
    )
    if any(before) and (ratio := compare_runs(now, before)) is not None:
        medians = (statistics.median(before), statistics.median(now))
        yield Comparison(f"{store} {words}", *medians, ratio, is_rate=name == "rate")


def _other_checkout(results: Results) -> Iterator[Verdict]:
    """Rates and CPU a job of this checkout against the other one; 5 % is noise."""
    for each in compare_checkouts(results):
        words = f"{each.words}, against the other checkout"
        if each.is_rate:
            yield Verdict(words, 0.95, each.ratio)
        elif "CPU" in each.words:
            yield Verdict(words, 1.05, each.ratio, is_least=False)
