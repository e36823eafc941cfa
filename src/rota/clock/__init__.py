"""Clocks: read time, wait for it and, in tests, control it.

Only this package reads the machine's time.
"""

from rota.clock.corrected import CorrectedClock
from rota.clock.idle import in_flight
from rota.clock.loop_watch import LoopWatch, Stall
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.clock.timeout import Timeout, timeout_after, timeout_at
from rota.clock.virtual import VirtualClock

__all__ = [
    "Clock",
    "CorrectedClock",
    "LoopWatch",
    "Stall",
    "SystemClock",
    "Timeout",
    "VirtualClock",
    "in_flight",
    "timeout_after",
    "timeout_at",
]
