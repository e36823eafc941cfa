"""What tests need: time that moves when told to, jobs and stored tasks as they are wanted."""

from rota.clock.virtual import VirtualClock
from rota.testing.builders import a_job, seed_tasks

__all__ = ["VirtualClock", "a_job", "seed_tasks"]
