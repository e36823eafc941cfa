"""Many jobs at once: first what would be done, then exactly that."""

from rota.control.bulk.acting import BulkReport, Skipped, carry_out
from rota.control.bulk.planning import BulkAction, BulkPlan, plan_bulk

__all__ = ["BulkAction", "BulkPlan", "BulkReport", "Skipped", "carry_out", "plan_bulk"]
