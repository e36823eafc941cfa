"""What tests need: virtual time, jobs and stored tasks."""

from rota.clock.virtual import VirtualClock
from rota.testing.builders import a_job, seed_tasks

__all__ = ["VirtualClock", "a_job", "seed_tasks"]
