"""The rail of specification 3: scheduling, recurrence and dead letters for many tenants."""

from rota.policy.audit import AuditEntry, read_audit
from rota.rail.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetters,
    Retried,
    RetryPlan,
)
from rota.rail.jobs import Preview, RailJob, RailPage, RailSettings, RailStore, SeriesView, Upcoming
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
