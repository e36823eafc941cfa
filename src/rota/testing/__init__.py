"""What tests need: time that moves when told to."""

from rota.clock.virtual import VirtualClock
from rota.testing.builders import seed_tasks

__all__ = ["VirtualClock", "seed_tasks"]
