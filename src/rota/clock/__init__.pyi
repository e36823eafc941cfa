from rota.clock.corrected import CorrectedClock as CorrectedClock
from rota.clock.loop import LoopWatch as LoopWatch
from rota.clock.loop import Stall as Stall
from rota.clock.loop import in_flight as in_flight
from rota.clock.protocol import Clock as Clock
from rota.clock.system import SystemClock as SystemClock
from rota.clock.system import Timeout as Timeout
from rota.clock.system import timeout_after as timeout_after
from rota.clock.system import timeout_at as timeout_at
from rota.clock.virtual import VirtualClock as VirtualClock

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
