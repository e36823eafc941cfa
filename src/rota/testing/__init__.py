"""What tests need: virtual time, jobs and stored tasks."""

from rota.clock.virtual import VirtualClock
from rota.testing.builders import a_job, seed_tasks
from rota.testing.virtual_app import VirtualApp

__all__ = ["VirtualApp", "VirtualClock", "a_job", "seed_tasks"]
