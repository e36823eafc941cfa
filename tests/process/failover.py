"""Faults in a group of servers while producers and workers go on, judged from outside.

Producers and workers are processes that write down what they ask of the store and what it answers.
The judge reads only these histories and, in the end, the store. It knows nothing of the servers.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.process.fleet import PATIENCE, wait_for
from tests.process.programs.job_group import GroupOrder
from tests.process.worker.group import (
    Member,
    ProcessGroup,
    count_open,
    gathered_group,
    pause_for,
    read_all,
    seconds_now,
)
from tests.verification.jobs_trace import JobEntry, JobsVerdict, Snapshot, check_jobs
from tests.verification.jobs_trace.records import (
    ApplyAnswered,
    AttemptStarted,
    InsertAnswered,
)

from rota.clock.system import SystemClock

ENDLESS = 10_000_000
"""More jobs than a producer hands in before it is ended."""

Fault = Callable[[], None]
"""Disturbs the servers; returns when they are whole again."""


class Load(NamedTuple):
    """What producers and workers do meanwhile."""

    works_for: timedelta = timedelta(milliseconds=40)
    lease_for: timedelta = timedelta(seconds=8)
    pauses_for: timedelta = timedelta(seconds=1)
    """Between two batches of a producer; each tenant has one."""
    calm_for: timedelta = timedelta(seconds=4)
    """Before each fault."""
    worker_count: int = 3


class Outcome(NamedTuple):
    """What was done, and what the judge found."""

    verdict: JobsVerdict
    endings: Counter[tuple[str, str | None]]
    acknowledged_count: int
    attempt_count: int
    insert_pauses: list[float]
    """For each fault the longest time in seconds in which one tenant could not insert."""
    other_pauses: list[float]
    """The same of the tenant that was affected least."""
    work_pauses: list[float]
    """For each fault the longest time in which no result was accepted."""
    took: float

    @property
    def breaches(self) -> dict[str, int]:
        """How often each invariant was broken."""
        return dict(Counter(breach.invariant for breach in self.verdict.breaches))

    def render(self) -> str:
        """The figures, on a few lines."""
        endings = {
            f"{status} {ending or ''}".strip(): n for (status, ending), n in self.endings.items()
        }
        return (
            f"{len(self.work_pauses)} faults in {self.took:.0f} s; {self.acknowledged_count} jobs "
            f"acknowledged, {self.attempt_count} attempts; in the end {endings}\n"
            f"breaches: {self.breaches or 'none'}\n"
            f"seconds without an acknowledged insert, the tenant affected most: "
            f"{_spread(self.insert_pauses)}; least: {_spread(self.other_pauses)}\n"
            f"seconds without an accepted result: {_spread(self.work_pauses)}"
        )


async def disturb(
    address: str,
    folder: Path,
    faults: Iterable[Fault],
    load: Load,
    say: Callable[[str], object] = str,
) -> Outcome:
    """Let producers and workers go on through all faults, until everything is done; judge it."""
    order = GroupOrder(
        role="worker",
        store=address,
        history="",
        job_count=ENDLESS,
        works_for=load.works_for,
        lease_for=load.lease_for,
        pauses_for=load.pauses_for,
    )
    begun, moments = seconds_now(), list[datetime]()
    with gathered_group(folder, order) as group:
        workers = [group.start_worker() for _ in range(load.worker_count)]
        producers = group.start_producers()
        wait_for(lambda: all(map(_is_at_work, producers)), "the first insert")
        for fault in faults:
            pause_for(load.calm_for)
            moments.append(SystemClock().now())
            fault()
            took = (SystemClock().now() - moments[-1]).total_seconds()
            say(f"{len(moments)}: {fault.__name__}; whole again after {took:.1f} s")
        pause_for(load.calm_for)
        for producer in producers:
            producer.kill()
        say("no more inserts")
        await _drain(address)
        assert all(worker.is_running for worker in workers), "a worker has given up"
        group.stop()
        took = seconds_now() - begun
        return _judge(group, address, await read_all(address), moments, took)


def _is_at_work(producer: Member) -> bool:
    return any(isinstance(entry, InsertAnswered) for entry in producer.history)


async def _drain(address: str) -> None:
    """Return when no job is open; the workers must make progress all the time."""
    fewest, gives_up_at = ENDLESS, seconds_now() + PATIENCE
    while (open_count := await count_open(address)) != 0:
        if open_count is not None and open_count < fewest:
            fewest, gives_up_at = open_count, seconds_now() + PATIENCE
        assert seconds_now() < gives_up_at, f"the workers do not go on; {open_count} jobs are open"
        await asyncio.to_thread(pause_for, timedelta(seconds=1))


def _judge(
    group: ProcessGroup, address: str, snapshot: Snapshot, moments: Sequence[datetime], took: float
) -> Outcome:
    history, is_sharded = group.merged_history(), address.startswith("shards:")
    inserts = [entry for entry in history if isinstance(entry, InsertAnswered)]
    by_producer: defaultdict[str, list[JobEntry]] = defaultdict(list)
    for entry in inserts:
        by_producer[entry.instance].append(entry)
    each = [find_pauses(entries, moments) for entries in by_producer.values()]
    applies = [entry for entry in history if isinstance(entry, ApplyAnswered)]
    return Outcome(
        check_jobs(history, snapshot, leases_in_parts=is_sharded),
        Counter((str(job.status), job.ending) for job in snapshot.jobs.values()),
        len({kept.id for entry in inserts for kept in entry.jobs}),
        sum(isinstance(entry, AttemptStarted) for entry in history),
        list(map(max, zip(*each, strict=True))),
        list(map(min, zip(*each, strict=True))),
        find_pauses(applies, moments),
        took,
    )


def find_pauses(entries: Sequence[JobEntry], moments: Sequence[datetime]) -> list[float]:
    """The longest time between two entries after each moment, in seconds."""
    ends = [*moments[1:], datetime.max.replace(tzinfo=moments[0].tzinfo)] if moments else []
    return [
        max(
            (
                (after.at - before.at).total_seconds()
                for before, after in pairwise(entries)
                if after.at > start and before.at < end
            ),
            default=0.0,
        )
        for start, end in zip(moments, ends, strict=True)
    ]


def _spread(values: Sequence[float]) -> str:
    return f"median {median(values):.1f}, most {max(values):.1f}" if values else "none"
