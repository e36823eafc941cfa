"""What tests need: time that moves when told to."""

from rota.clock.virtual import VirtualClock

__all__ = ["VirtualClock"]
