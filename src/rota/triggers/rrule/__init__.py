"""RFC 5545 recurrence rules: text in, instants out."""

from rota.triggers.rrule.parse import parse_rrule
from rota.triggers.rrule.rule import RecurrenceRule

__all__ = ["RecurrenceRule", "parse_rrule"]
