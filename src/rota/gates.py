"""Gates decide whether a job may run now and, if not, when."""

from rota.policy.gate_settings import (
    EVERYTHING,
    Chain,
    Damage,
    Entry,
    GateSettings,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    first_open,
    make_gate_settings,
    parse_quiet_hours,
)
from rota.policy.gate_watch import GateWatch
from rota.policy.gates import OPEN, Closed, Gate, Only, Open, Refreshed, Spread, Verdict, spread_out
from rota.policy.maintenance import Maintenance
from rota.policy.quiet_hours import QuietHours
from rota.policy.windows import QuietWindow, parse_time_of_day

__all__ = [
    "EVERYTHING",
    "OPEN",
    "Chain",
    "Closed",
    "Damage",
    "Entry",
    "Gate",
    "GateSettings",
    "GateWatch",
    "Maintenance",
    "Only",
    "Open",
    "QuietHours",
    "QuietWindow",
    "Refreshed",
    "Scope",
    "ScopedMaintenance",
    "Spread",
    "TenantQuietHours",
    "Verdict",
    "first_open",
    "make_gate_settings",
    "parse_quiet_hours",
    "parse_time_of_day",
    "spread_out",
]
