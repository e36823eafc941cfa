"""Starts a program of ``peers`` with a verb, or to enqueue in short turns.

    python bench/queue_contest/peers/start.py on_rota bulk 10000
    python bench/queue_contest/peers/start.py on_rota turns

The program comes from the checkout in the working directory. That may be an older one, which knows
nothing of this: so functions of this file take the place of its own. In turns, each line on
standard input after ``ready`` is a number of seconds. The answer is one line of JSON.

Before anything is timed, Python collects the garbage of the start. Otherwise it does so once within
the first thousands of jobs: it visits all that was imported, which takes as long as hundreds of
jobs, and hits a contestant or not.
"""

import gc
import importlib
import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

PEERS = "bench.queue_contest.peers"
TURNS = "turns"
WARM_UP_COUNT = 50
AT_ONCE = 5
"""How many jobs are enqueued before the clock is read again."""


def connect_tidily(contestant: Any) -> None:
    """Have the contestant collect its garbage once it is connected."""
    connect = contestant.connect

    async def connect_and_collect() -> None:
        await connect()
        gc.collect()

    contestant.connect = connect_and_collect


async def take_turns(contestant: Any) -> None:
    """Answer every turn until standard input ends. Nothing else runs between two turns."""
    await contestant.connect()
    await contestant.enqueue(WARM_UP_COUNT)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(await _take_turn(contestant, float(line))), flush=True)


async def _take_turn(contestant: Any, seconds: float) -> dict[str, float]:
    count, elapsed, cpu, begin = 0, 0.0, time.process_time(), time.perf_counter()
    while elapsed < seconds:
        await contestant.enqueue(AT_ONCE)
        count += AT_ONCE
        elapsed = time.perf_counter() - begin
    return {"count": count, "seconds": elapsed, "cpu": time.process_time() - cpu}


def main() -> None:
    """Run the program that the command line names."""
    program = sys.argv.pop(1)
    sys.path[0] = str(Path.cwd())
    base: Any = importlib.import_module(f"{PEERS}.contestant")
    usual = base.perform

    async def perform(contestant: Any, verb: str, numbers: list[int]) -> None:
        connect_tidily(contestant)
        await (take_turns(contestant) if verb == TURNS else usual(contestant, verb, numbers))

    base.perform = perform
    runpy.run_module(f"{PEERS}.{program}", run_name="__main__")


if __name__ == "__main__":
    main()
