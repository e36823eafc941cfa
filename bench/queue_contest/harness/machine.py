"""What the machine tells about processes: the processor time they took."""

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of(process_ids: Iterable[int]) -> float:
    """Seconds of processor time that these have taken; none where there is no /proc."""
    return sum(_ticks(process_id)[0] for process_id in process_ids) / _TICKS


def cpu_of_family(head: int | None) -> float:
    """Of a process with its children, those that have ended among them."""
    if head is None:
        return 0.0
    children = Path(f"/proc/{head}/task/{head}/children")
    living = [int(text) for text in children.read_text().split()] if children.exists() else []
    return cpu_of([head, *living]) + _ticks(head)[1] / _TICKS


def _ticks(process_id: int) -> tuple[int, int]:
    """Its own, and those of its children that have ended."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, 0
    fields = stat.rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def describe_machine() -> str:
    load = os.getloadavg()[0]
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load:.1f}"


def time_loop() -> float:
    """Milliseconds of a fixed loop: tells a machine that is busy from a contestant that is slow."""
    begin, total = time.perf_counter(), 0
    for number in range(500_000):
        total += number * number
    return (time.perf_counter() - begin) * 1e3
