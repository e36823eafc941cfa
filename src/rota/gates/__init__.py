"""Gates: may this job run now, and if not, when? Values that compose; no clock, no chance."""

from rota.gates.board import (
    EVERYTHING,
    Board,
    Entry,
    Scope,
    ScopedMaintenance,
    TenantQuietHours,
    make_board,
)
from rota.gates.chain import Chain, first_open
from rota.gates.document import Damage, parse_quiet_hours
from rota.gates.maintenance import Maintenance
from rota.gates.only import Only
from rota.gates.quiet_hours import QuietHours
from rota.gates.spreading import Spread, spread_out
from rota.gates.verdict import OPEN, Closed, Gate, Open, Refreshed, Verdict
from rota.gates.watch import GateWatch
from rota.gates.window import QuietWindow, parse_time_of_day

__all__ = [
    "EVERYTHING",
    "OPEN",
    "Board",
    "Chain",
    "Closed",
    "Damage",
    "Entry",
    "Gate",
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
    "make_board",
    "parse_quiet_hours",
    "parse_time_of_day",
    "spread_out",
]
