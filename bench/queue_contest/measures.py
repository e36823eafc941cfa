"""What is measured of a contestant, the same way for all.

Every measurement has an empty store of its own. Enqueueing one by one has a module of its own,
``turns``. A drain runs from the starting gun, when all worker processes are up and connected, to
the moment when the *store* has no unfinished job. On PostgreSQL the gun is a lock on the table of
jobs, held until every worker waits for it and then let go; elsewhere it is a line on standard
input: what waits for a lock there sleeps at random, or there is none.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.queue_contest.contestants import Measure
from bench.queue_contest.harness.machine import cpu_of_family
from bench.queue_contest.harness.places import Place, PostgresPlace, SqlitePlace
from bench.queue_contest.harness.programs import ContestantError, Entry, Workers

WARM_UP_COUNT = 25
"""Stamped jobs at the beginning whose latency is not counted."""

AIM_SECONDS = 0.5
"""How long the number of connections that wait at the start must stay the same."""

Figures = dict[str, float]


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int
    turn_seconds: float
    bulk_count: int
    drain_count: int
    feed_count: int
    feed_rate: int
    feed_rounds: int
    idle_seconds: float
    repeats: int


# The slowest hundredth is the luck of a disk, which has its good and bad half minutes: so latency
# is told by many short rounds, in which the contestants take turns.
FULL = Sizes(60, 0.25, 20_000, 20_000, 300, 50, 10, 8.0, 5)
QUICK = Sizes(20, 0.2, 10_000, 20_000, 300, 50, 3, 3.0, 1)
BRIEF = Sizes(20, 0.15, 5_000, 10_000, 75, 75, 20, 3.0, 20)
"""For the page: as many repeats as there is time for."""


def take(measure: Measure, entry: Entry, sizes: Sizes) -> Figures:
    """One measurement at an empty place; ContestantError when the contestant does not finish."""
    entry.tell("prepare")
    if measure is Measure.BULK:
        return {"rate": sizes.bulk_count / entry.tell("bulk", sizes.bulk_count)}
    if measure is Measure.LATENCY:
        return measure_latency(entry, sizes.feed_count, sizes.feed_rate)
    if measure is Measure.IDLE:
        return measure_idle(entry, sizes.idle_seconds)
    count = int(sizes.drain_count * entry.contestant.drain_share)
    return measure_drain(entry, count, 2 if measure is Measure.DRAIN_TWO else 1)


def measure_drain(entry: Entry, count: int, processes: int) -> Figures:
    """Jobs a second from the gun to an empty store, and the processor time a job took."""
    entry.tell("bulk", count)
    entry.place.settle()
    statement = entry.contestant.is_pending
    with entry.workers(processes) as workers, _gun(entry, workers, processes) as begin:
        before = _processor_times(entry, workers)
        workers.wait_until(lambda: workers.handled >= count, "all jobs have run")
        workers.wait_until(lambda: not entry.place.is_pending(statement), "all jobs are finished")
        seconds = time.perf_counter() - begin
        after = _processor_times(entry, workers)
        handled = workers.handled
    if handled > count + WARM_UP_COUNT:
        raise ContestantError(f"{handled} handler calls for {count} jobs")
    return {
        "rate": count / seconds,
        "worker_us": (after[0] - before[0]) / count * 1e6,
        "server_us": (after[1] - before[1]) / count * 1e6,
    }


@contextmanager
def _gun(entry: Entry, workers: Workers, processes: int) -> Iterator[float]:
    """The instant of the start, on the clock of ``time.perf_counter``."""
    place = entry.place
    if not isinstance(place, PostgresPlace):
        workers.go()
        yield time.perf_counter()
        return
    with place.locked(entry.contestant.table):
        workers.go()
        _await_aim(place, workers, processes)
    yield time.perf_counter()


def _await_aim(place: PostgresPlace, workers: Workers, processes: int) -> None:
    """Return when every process waits at the locked table, and no more connections join them."""
    seen, since = 0, time.perf_counter()

    def is_steady() -> bool:
        nonlocal seen, since
        waiting = place.count_waiting()
        if waiting != seen:
            seen, since = waiting, time.perf_counter()
        return seen >= processes and time.perf_counter() - since > AIM_SECONDS

    workers.wait_until(is_steady, "every worker is at the start", pause=0.05)


def measure_latency(entry: Entry, count: int, rate: int) -> Figures:
    """Milliseconds from just before the enqueue call to the start of the handler."""
    with entry.workers(1) as workers:
        workers.go()
        time.sleep(1.5)
        fed = count + WARM_UP_COUNT
        entry.tell("feed", fed, rate)
        workers.wait_until(lambda: len(workers.latencies) >= fed, "all fed jobs have run", 0.05)
        waited = sorted(workers.latencies[WARM_UP_COUNT:])
    return {
        "p50_ms": waited[len(waited) // 2] * 1e3,
        "p99_ms": waited[int(len(waited) * 0.99)] * 1e3,
    }


def measure_idle(entry: Entry, seconds: float) -> Figures:
    """The share of one core, and commits a second, while there is nothing to do."""
    place = entry.place
    with entry.workers(1) as workers:
        workers.go()
        time.sleep(2)
        before, commits = _processor_times(entry, workers), _commits(place)
        begin = time.perf_counter()
        time.sleep(seconds)
        elapsed = time.perf_counter() - begin
        after = _processor_times(entry, workers)
        figures = {
            "worker_percent": (after[0] - before[0]) / elapsed * 100,
            "server_percent": (after[1] - before[1]) / elapsed * 100,
        }
        # The statistics are themselves asked for in a transaction.
        return {**figures, "commits": max(_commits(place) - commits - 1, 0) / elapsed}


def _commits(place: object) -> int:
    return place.count_commits() if isinstance(place, PostgresPlace) else 0


def _processor_times(entry: Entry, workers: Workers) -> tuple[float, float]:
    return workers.cpu, server_cpu(entry.place)


def server_cpu(place: Place) -> float:
    """Seconds of processor time that the server at a place has taken."""
    return 0.0 if isinstance(place, SqlitePlace) else cpu_of_family(place.server_process_id)
