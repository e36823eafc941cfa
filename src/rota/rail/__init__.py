"""The rail of specification 3: scheduling, recurrence and dead letters for many tenants."""

from rota.rail.audit import AuditEntry, read_audit
from rota.rail.context import RailSettings, RailStore
from rota.rail.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetters,
    Retried,
    RetryPlan,
)
from rota.rail.jobs import RailJob, RailPage, SeriesView
from rota.rail.preview import Preview, Upcoming
from rota.rail.rail import Rail

__all__ = [
    "AuditEntry",
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLetters",
    "Preview",
    "Rail",
    "RailJob",
    "RailPage",
    "RailSettings",
    "RailStore",
    "Retried",
    "RetryPlan",
    "SeriesView",
    "Upcoming",
    "read_audit",
]
