from rota.clock.corrected import CorrectedClock as CorrectedClock
from rota.clock.idle import in_flight as in_flight
from rota.clock.loop_watch import LoopWatch as LoopWatch
from rota.clock.loop_watch import Stall as Stall
from rota.clock.protocol import Clock as Clock
from rota.clock.system import SystemClock as SystemClock
from rota.clock.timeout import Timeout as Timeout
from rota.clock.timeout import timeout_after as timeout_after
from rota.clock.timeout import timeout_at as timeout_at
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
