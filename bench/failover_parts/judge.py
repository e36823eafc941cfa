"""The judge of a run: what was acknowledged and done, by the files that the programs wrote."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rota import open_store
from rota.jobs import JobId, JobStatus

AT_ONCE = 1000


@dataclass
class Seen:
    """All that the programs have seen."""

    acknowledged: dict[str, float] = field(default_factory=dict)
    acknowledged_by: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refusals: Counter[str] = field(default_factory=Counter)
    found_again: int = 0
    runs: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Job and token, and when a handler began."""
    ends: dict[tuple[str, str], float] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    settled: dict[str, float] = field(default_factory=dict)


def read_journals(paths: Iterable[Path]) -> Seen:
    seen = Seen()
    for path in paths:
        for line in path.read_text().splitlines():
            _note(seen, path.name, line.split())
    return seen


def _note(seen: Seen, name: str, words: Sequence[str]) -> None:
    at, (word, job_id, *rest) = float(words[0]), words[1:]
    match word:
        case "acknowledged":
            seen.acknowledged[job_id] = at
            seen.acknowledged_by[name].append(at)
            seen.found_again += rest[0] == "again"
        case "refused":
            seen.refusals[rest[0]] += 1
        case "begins":
            seen.runs[job_id, rest[0]].append(at)
        case "ends":
            seen.ends[job_id, rest[0]] = at
        case "effect":
            seen.effects[job_id] += 1
        case "settled":
            seen.settled.setdefault(job_id, at)


@dataclass(frozen=True)
class Verdict:
    """What went wrong, job by job; all empty is right."""

    lost: list[str]
    """Acknowledged, and not in the store."""
    unfinished: list[str]
    without_effect: list[str]
    same_lease_twice: list[str]
    """Two handlers began under the same token."""
    overlapping: list[str]
    """Two handlers ran at the same time."""
    run_after_settled: list[str]
    """Run again although the store had acknowledged the end."""

    @property
    def is_right(self) -> bool:
        return not any(vars(self).values())


async def judge(url: str, seen: Seen) -> Verdict:
    statuses = await _read_statuses(url, sorted(seen.acknowledged))
    kept = [each for each in seen.acknowledged if each in statuses]
    return Verdict(
        lost=[each for each in seen.acknowledged if each not in statuses],
        unfinished=[each for each in kept if statuses[each] is not JobStatus.COMPLETED],
        without_effect=[each for each in kept if not seen.effects[each]],
        same_lease_twice=[job_id for (job_id, _), began in seen.runs.items() if len(began) > 1],
        overlapping=_find_overlaps(seen),
        run_after_settled=[
            job_id
            for (job_id, _), began in seen.runs.items()
            if max(began) > seen.settled.get(job_id, max(began))
        ],
    )


def _find_overlaps(seen: Seen) -> list[str]:
    spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for (job_id, token), began in seen.runs.items():
        ended = seen.ends.get((job_id, token), float("inf"))
        spans[job_id] += [(at, ended) for at in began]
    return [
        job_id
        for job_id, runs in spans.items()
        if any(second[0] < first[1] for first, second in pairwise(sorted(runs)))
    ]


async def _read_statuses(url: str, job_ids: Sequence[str]) -> dict[str, JobStatus]:
    async with await open_store(url) as store:
        found: dict[str, JobStatus] = {}
        for start in range(0, len(job_ids), AT_ONCE):
            wanted = [JobId(each) for each in job_ids[start : start + AT_ONCE]]
            jobs = await store.get("default", wanted)
            found |= {job_id: job.status for job_id, job in jobs.items()}
        return found


async def wait_until_done(url: str, seconds: float) -> None:
    """Return when no job waits or runs; TimeoutError after that time."""
    async with asyncio.timeout(seconds), await open_store(url) as store:
        while True:
            now = await store.read_clock()
            depths = await store.survey(now) if now else []
            if not any(each.due_count + each.later_count + each.running_count for each in depths):
                return
            await asyncio.sleep(0.5)


def longest_gap(times: Sequence[float], begin: float, end: float) -> float:
    """The longest time without an acknowledgement that touches the span."""
    gaps = [after - before for before, after in pairwise(times) if before < end and after > begin]
    return max(gaps, default=0.0)
