"""Enqueueing in turns: who takes part in which round, and what a drifting disk does to ratios."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from bench.queue_contest.harness.environments import PEERS
from bench.queue_contest.harness.places import SqlitePlace
from bench.queue_contest.harness.programs import ContestantError, Entry
from bench.queue_contest.measures import BRIEF, Figures
from bench.queue_contest.targets import compare_runs
from bench.queue_contest.turns import take_turns

OLD_CONTESTANT = """
import asyncio, sys
async def perform(contestant, verb, numbers):
    assert verb == "bulk", "it knows nothing of turns"
    await contestant.connect()
    await contestant.bulk(*numbers)
def main(contestant): asyncio.run(perform(contestant, sys.argv[1], [int(n) for n in sys.argv[2:]]))
"""
OLD_PROGRAM = """
import gc
from bench.queue_contest.peers.contestant import main
class OnOld:
    async def connect(self):
        self._garbage = [[] for _ in range(10_000)]
    async def enqueue(self, count): pass
    async def bulk(self, count): print(count, gc.get_count()[0] < 1_000, gc.get_count()[1:])
if __name__ == "__main__": main(OnOld())
"""


class FakeEntry:
    """Enqueues a hundred jobs in each turn, until it fails."""

    def __init__(self, name: str, turn_limit: int) -> None:
        self.contestant = type("Named", (), {"key": name})
        self.place = SqlitePlace(Path(), 0)
        self._turn_limit = turn_limit

    def tell(self, verb: str) -> None:
        assert verb == "prepare"

    @contextmanager
    def enqueuer(self) -> Iterator["FakeEntry"]:
        if not self._turn_limit:
            raise ContestantError("it did not start")
        yield self

    def take_turn(self, seconds: float) -> dict[str, float]:
        self._turn_limit -= 1
        if self._turn_limit < 0:
            raise ContestantError("it failed")
        return {"count": 100, "seconds": seconds, "cpu": 0.01}


@contextmanager
def entered(name: str, turn_limit: int = 1_000) -> Iterator[Entry]:
    yield cast("Entry", FakeEntry(name, turn_limit))


def run_rounds(*entries: Any, rounds: int = 12) -> tuple[list[tuple[str, Figures]], list[str]]:
    noted: list[tuple[str, Figures]] = []
    failed: list[str] = []
    sizes = replace(BRIEF, rounds=rounds, turn_seconds=0.5)
    take_turns(
        entries,
        sizes,
        lambda key, figures: noted.append((key, figures)),
        lambda key, _: failed.append(key),
    )
    return noted, failed


def test_everybody_has_a_turn_in_each_round_in_varying_order() -> None:
    noted, failed = run_rounds(entered("a"), entered("b"), entered("c"))
    turns = [key for key, figures in noted if "rate" in figures]
    rounds = [tuple(turns[start : start + 3]) for start in range(0, len(turns), 3)]
    assert failed == []
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) > 2
    assert noted[0][1] == {"rate": 200.0, "client_us": 100.0}


def test_a_contestant_that_fails_is_left_out_and_the_others_go_on() -> None:
    noted, failed = run_rounds(entered("a"), entered("b", turn_limit=3), entered("c", turn_limit=0))
    assert Counter(key for key, figures in noted if "rate" in figures) == {"a": 12, "b": 3}
    assert failed == ["c", "b"]


def test_what_drifts_more_slowly_than_a_round_cancels_out() -> None:
    disk = [1_000.0, 700.0, 2_000.0, 350.0, 900.0]
    ratio = compare_runs([1.1 * speed for speed in disk], disk)
    assert ratio is not None
    assert [round(each, 6) for each in (ratio.value, ratio.low, ratio.high)] == [1.1, 1.1, 1.1]


def run_old_program(folder: Path, *arguments: str) -> list[str]:
    peers = folder / "bench/queue_contest/peers"
    peers.mkdir(parents=True)
    (peers / "contestant.py").write_text(OLD_CONTESTANT)
    (peers / "on_old.py").write_text(OLD_PROGRAM)
    done = subprocess.run(
        [sys.executable, str(PEERS / "start.py"), "on_old", *arguments],
        cwd=folder,
        input="0.01\n0.01\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_program_of_another_checkout_takes_turns_it_does_not_know_of(tmp_path: Path) -> None:
    ready, *turns = run_old_program(tmp_path, "turns")
    assert ready == "ready"
    assert [json.loads(turn)["count"] > 0 for turn in turns] == [True, True]


def test_what_the_start_has_left_behind_is_collected_before_a_verb_is_timed(tmp_path: Path) -> None:
    assert run_old_program(tmp_path, "bulk", "500") == ["500 True (0, 0)"]
