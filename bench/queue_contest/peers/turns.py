"""Runs a program of ``peers`` that enqueues in short turns, and waits in between.

    python bench/queue_contest/peers/turns.py on_rota

The program comes from the checkout in the working directory. That may be an older one, which knows
nothing of turns: so this file takes the place of its ``perform``. After ``ready``, each line on
standard input is a turn: a number of seconds. The answer is one line of JSON.
"""

import importlib
import json
import runpy
import sys
import time
from pathlib import Path
from typing import Any

PEERS = "bench.queue_contest.peers"
WARM_UP_COUNT = 50
AT_ONCE = 5
"""How many jobs are enqueued before the clock is read again."""


async def take_turns(contestant: Any, *_: object) -> None:
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


if __name__ == "__main__":
    program = sys.argv[1]
    sys.argv[1:] = ["turns"]
    sys.path[0] = str(Path.cwd())
    base: Any = importlib.import_module(f"{PEERS}.contestant")
    base.perform = take_turns
    runpy.run_module(f"{PEERS}.{program}", run_name="__main__")
