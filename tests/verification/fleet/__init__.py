"""A whole fleet under one virtual clock and one seed: processes, hosts, links and a store.

The same seed gives the same history, byte for byte. ``python -m tests.verification.simulation
--fleet`` plays ranges of seeds; ``docs/proof.md`` says what is simulated and how it is judged.
"""

from tests.verification.fleet.plan import FleetPlan, draw_plan
from tests.verification.fleet.trial import FleetTrial, try_fleet, try_plan

__all__ = ["FleetPlan", "FleetTrial", "draw_plan", "try_fleet", "try_plan"]
