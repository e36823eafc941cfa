"""What was set as a goal for this contest, and whether this run has reached it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.queue_contest.contestants import (
    APSW,
    BULLMQ,
    GRAPHILE,
    GRAPHILE_DEFAULTS,
    HUEY_OFF,
    MONGO_LOOP,
    PGBENCH,
    PGQUEUER,
    ROTA,
    ROTA_BEFORE,
    ROTA_DOOR,
    ROTA_RESULTS,
    Measure,
    StoreKind,
    list_contestants,
)
from bench.queue_contest.race import Results

_NO_PEERS = (ROTA, ROTA_DOOR, ROTA_RESULTS, ROTA_BEFORE, HUEY_OFF, MONGO_LOOP)


@dataclass(frozen=True)
class Verdict:
    """A ratio and the goal for it; ``is_least`` when it must not be lower, else not higher."""

    words: str
    goal: float
    ratio: float
    is_least: bool = True

    @property
    def is_reached(self) -> bool:
        return self.ratio >= self.goal if self.is_least else self.ratio <= self.goal


def judge(results: Results) -> list[Verdict]:
    """Every goal for which both sides were measured."""
    return [
        *_on_postgres(results),
        *_latency(results),
        *_on_sqlite(results),
        *_on_redis(results),
        *_on_mongo(results),
        *_doors(results),
        *_doors_against_peers(results),
        *_other_checkout(results),
    ]


def _doors(results: Results) -> Iterator[Verdict]:
    """The front door beside the bare engine: 5 % for the door, 15 % for results."""
    for store in StoreKind:
        for measure in (Measure.ENQUEUE, Measure.BULK, Measure.DRAIN):
            rate = _rates(results, measure, store)
            words = f"{store} {measure}: the door against the engine"
            yield from _compare(words, 0.95, rate(ROTA_DOOR), rate(ROTA))
            words = f"{store} {measure}: the door with results against the engine"
            yield from _compare(words, 0.85, rate(ROTA_RESULTS), rate(ROTA))


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
            best = max((it for it in map(rate, peers) if it is not None), default=None)
            words = f"{store} {measure}: the door against the best peer"
            yield from _compare(words, 1.0, rate(ROTA_DOOR), best)
            words = f"{store} {measure}: the door with results against the best peer"
            yield from _compare(words, 1.0, rate(ROTA_RESULTS), best)


def _on_postgres(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.POSTGRES)
    two = _rates(results, Measure.DRAIN_TWO, StoreKind.POSTGRES)
    single = _rates(results, Measure.ENQUEUE, StoreKind.POSTGRES)
    bulk = _rates(results, Measure.BULK, StoreKind.POSTGRES)
    yield from _compare("PostgreSQL drain against PgQueuer", 1.5, drain(ROTA), drain(PGQUEUER))
    yield from _compare("PostgreSQL drain against Graphile", 1.0, drain(ROTA), drain(GRAPHILE))
    yield from _compare("PostgreSQL drain against pgbench", 0.6, drain(ROTA), drain(PGBENCH))
    yield from _compare("PostgreSQL drain, two against one", 1.0, two(ROTA), drain(ROTA))
    yield from _compare(
        "PostgreSQL enqueue one by one against PgQueuer", 1.0, single(ROTA), single(PGQUEUER)
    )
    peers = [rate for rate in (bulk(PGQUEUER), bulk(GRAPHILE)) if rate is not None]
    yield from _compare(
        "PostgreSQL bulk against the best peer", 1.2, bulk(ROTA), max(peers, default=None)
    )


def _latency(results: Results) -> Iterator[Verdict]:
    for name in ("p50_ms", "p99_ms"):
        waited = [
            results.median(f"{peer} on {StoreKind.POSTGRES}", Measure.LATENCY, name)
            for peer in (ROTA, PGQUEUER, GRAPHILE, GRAPHILE_DEFAULTS)
        ]
        peers = [each for each in waited[1:] if each is not None]
        words = f"PostgreSQL latency {name[:3]} against the best peer"
        for verdict in _compare(words, 1.0, waited[0], min(peers, default=None)):
            yield Verdict(verdict.words, verdict.goal, verdict.ratio, is_least=False)


def _on_sqlite(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.SQLITE)
    yield from _compare(
        "SQLite drain, durable, against Huey that is not", 1.5, drain(ROTA), drain(HUEY_OFF)
    )
    yield from _compare("SQLite drain against the raw statements", 0.6, drain(ROTA), drain(APSW))


def _on_redis(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.REDIS)
    bulk = _rates(results, Measure.BULK, StoreKind.REDIS)
    yield from _compare("Redis drain against BullMQ", 1.5, drain(ROTA), drain(BULLMQ))
    yield from _compare("Redis bulk against BullMQ", 1.0, bulk(ROTA), bulk(BULLMQ))


def _on_mongo(results: Results) -> Iterator[Verdict]:
    drain = _rates(results, Measure.DRAIN, StoreKind.MONGO)
    yield from _compare(
        "MongoDB drain against find_one_and_update", 3.0, drain(ROTA), drain(MONGO_LOOP)
    )


def _rates(results: Results, measure: Measure, store: StoreKind) -> Callable[[str], float | None]:
    return lambda name: results.median(f"{name} on {store}", measure, "rate")


def _compare(
    words: str, goal: float, ours: float | None, theirs: float | None
) -> Iterator[Verdict]:
    if ours is not None and theirs:
        yield Verdict(words, goal, ours / theirs)


@dataclass(frozen=True)
class Comparison:
    """One figure of the other checkout and of this one."""

    words: str
    before: float
    now: float
    is_rate: bool = True

    @property
    def ratio(self) -> float:
        return self.now / self.before


def compare_checkouts(results: Results) -> Iterator[Comparison]:
    """Every figure that was measured of both checkouts: rates, latency, and CPU a job."""
    for store in StoreKind:
        for measure in (Measure.ENQUEUE, Measure.BULK, Measure.DRAIN, Measure.DRAIN_TWO):
            yield from _compare_figure(results, store, measure, "rate", f"{measure}, jobs/s")
        for name in ("p50", "p99"):
            words = f"latency {name}, ms"
            yield from _compare_figure(results, store, Measure.LATENCY, f"{name}_ms", words)
        for part in ("worker", "server"):
            words = f"CPU of the {part}, us a job"
            yield from _compare_figure(results, store, Measure.DRAIN, f"{part}_us", words)


def _compare_figure(
    results: Results, store: StoreKind, measure: Measure, name: str, words: str
) -> Iterator[Comparison]:
    before, now = (
        results.median(f"{who} on {store}", measure, name) for who in (ROTA_BEFORE, ROTA)
    )
    if before and now is not None:
        yield Comparison(f"{store} {words}", before, now, is_rate=name == "rate")


def _other_checkout(results: Results) -> Iterator[Verdict]:
    """Rates and CPU a job of this checkout against the other one; 5 % is noise."""
    for each in compare_checkouts(results):
        words = f"{each.words}, against the other checkout"
        if each.is_rate:
            yield Verdict(words, 0.95, each.ratio)
        elif "CPU" in each.words:
            yield Verdict(words, 1.05, each.ratio, is_least=False)
