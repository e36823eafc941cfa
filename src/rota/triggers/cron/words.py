"""A cron schedule in words."""

from rota.triggers.cron.fields import CronFields


def describe_fields(fields: CronFields) -> str:
    return str(fields)
