"""Gates decide whether a job may run now and, if not, when."""

from rota.policy.gate_settings import (
    EVERYTHING,
    Damage,
    Entry,
    GateSettings,
    KindNotifies,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    make_gate_settings,
    parse_quiet_hours,
)
from rota.policy.gates import (
    OPEN,
    Chain,
    Closed,
    Gate,
    Maintenance,
    Only,
    Open,
    Refreshed,
    Spread,
    Verdict,
    first_open,
    spread_out,
)
from rota.policy.quiet_hours import QuietHours, QuietWindow, parse_time_of_day
from rota.policy.watch import GateWatch

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
    "KindNotifies",
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
