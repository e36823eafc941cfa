"""What every contestant written in Python is built on: payload, counting handler, command line.

A contestant's program is run with a verb and numbers: ``prepare``, ``bulk COUNT``,
``feed COUNT RATE`` and ``work``; ``start.py`` calls its ``enqueue``. Where it finds its store and
which settings it has to use comes from the environment. The timed verbs print their own seconds, so
that starting an interpreter is never measured.
"""

import asyncio
import json
import mmap
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

JOB_COUNT_ROOM = 8192
"""How many latencies one worker process can note."""

SETTINGS: dict[str, Any] = json.loads(os.environ.get("QUEUE_CONTEST", "{}"))
PAYLOAD_SIZE = 100


def make_payload(at: float = 0.0) -> dict[str, Any]:
    """A payload of 100 bytes as compact JSON, while it carries no time."""
    payload: dict[str, Any] = {"user": 123456, "email": "someone@example.com", "at": at, "pad": ""}
    bare = len(json.dumps({**payload, "at": 0.0}, separators=(",", ":")))
    return {**payload, "pad": "x" * (PAYLOAD_SIZE - bare)}


PAYLOAD = make_payload()


class Tally:
    """Counts handled jobs where the harness can read it, and notes how long stamped ones waited."""

    def __init__(self) -> None:
        path = Path(SETTINGS["folder"]) / f"{os.getpid()}.tally"
        size = 8 * (JOB_COUNT_ROOM + 2)
        path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            memory = memoryview(mmap.mmap(file.fileno(), size))
        self._counts = memory[:16].cast("Q")
        self._latencies = memory[16:].cast("d")

    def count(self, payload: dict[str, Any]) -> None:
        """The whole of the no-op job."""
        stamp = payload["at"]
        if stamp:
            self._latencies[self._counts[1]] = time.time() - stamp
            self._counts[1] += 1
        self._counts[0] += 1


class Contestant(Protocol):
    """The verbs. ``connect`` is called before each of them but is no part of what is timed.

    Whoever has a worker also has ``work()``, which handles jobs until SIGTERM.
    """

    async def connect(self) -> None: ...

    async def prepare(self) -> None:
        """Make an empty store ready."""

    async def enqueue(self, count: int) -> None:
        """That many jobs one by one, each durable before the next begins."""

    async def bulk(self, count: int) -> None:
        """So many jobs, in pieces of the size all use."""

    async def feed(self, count: int, rate: int) -> None:
        """So many stamped jobs at a rate of so many a second."""


async def paced(count: int, rate: int, call: Callable[[], Awaitable[object]]) -> None:
    """Call so often, at that rate, without drifting."""
    begin = time.perf_counter()
    for number in range(count):
        wait = begin + number / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        await call()


def pieces(count: int) -> list[int]:
    """The sizes of the pieces that a bulk is handed in by."""
    size = int(SETTINGS["bulk_size"])
    return [min(size, count - done) for done in range(0, count, size)]


async def perform(contestant: Contestant, verb: str, numbers: list[int]) -> None:
    """Carry out one verb and print what came of it as one line of JSON."""
    if verb == "prepare":
        await contestant.prepare()
        return
    await contestant.connect()
    if verb == "work":
        print("ready", flush=True)
        sys.stdin.readline()
        await getattr(contestant, verb)()
        return
    begin = time.perf_counter()
    await getattr(contestant, verb)(*numbers)
    print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)


def main(contestant: Contestant) -> None:
    """Run the verb of the command line, on uvloop where the environment has it."""
    verb, *numbers = sys.argv[1:]
    performance = perform(contestant, verb, [int(number) for number in numbers])
    if SETTINGS.get("uvloop"):
        import uvloop  # noqa: PLC0415 - only some environments have it

        uvloop.run(performance)
    else:
        asyncio.run(performance)
