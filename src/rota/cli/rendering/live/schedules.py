"""The schedules of declarative tasks, which are known without asking a store."""

from datetime import datetime
from zoneinfo import ZoneInfo

from rota.errors import CronCalculationError, InvalidCronExpressionError
from rota.escape import escape
from rota.triggers.cron import Cron
from rota.triggers.parse import parse_cron


def describe_schedule(expression: str) -> str:
    cron = _parse(expression)
    return escape(expression) if cron is None else cron.describe()


def next_occurrence(expression: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    cron = _parse(expression)
    try:
        return None if cron is None else cron.next_after(now, zone)
    except CronCalculationError:
        return None


def _parse(expression: str) -> Cron | None:
    try:
        return parse_cron(expression, dialect="posix-multiline")
    except InvalidCronExpressionError:
        return None
