"""Time: read, waited for and, in tests, made. Nothing else in Rota asks the machine for it."""

from rota.clock.in_flight import in_flight
from rota.clock.protocol import Clock
from rota.clock.system import SystemClock
from rota.clock.virtual import VirtualClock

__all__ = ["Clock", "SystemClock", "VirtualClock", "in_flight"]
