"""Commands about schedules: cron expressions, crontabs and recurrence rules."""
