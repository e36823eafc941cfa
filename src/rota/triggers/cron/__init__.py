"""Cron schedules: two dialects, one meaning, exact in every zone."""

from rota.triggers.cron.expression import Cron, CronTrigger, FieldCron

__all__ = ["Cron", "CronTrigger", "FieldCron"]
