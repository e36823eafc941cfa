"""The app of the project, and what beat sends."""

from datetime import timedelta

from celery import Celery
from celery.schedules import crontab, schedule

app = Celery("shop", broker="memory://", backend="cache+memory://")
app.autodiscover_tasks(["shop", "shop.reports"])
app.conf.timezone = "Europe/London"
app.conf.beat_schedule = {
    "close-day": {"task": "shop.tasks.close_day", "schedule": crontab(hour=1, minute=30)},
    "close-half-hours": {
        "task": "shop.tasks.close_day",
        "schedule": crontab(minute="0,30", hour="1,4"),
        "kwargs": {"note": "half"},
    },
    "first-fridays": {
        "task": "shop.reports.tasks.send_report",
        "schedule": crontab("15", "9", day_of_month="1-7", day_of_week="friday"),
        "args": ("weekly", 3),
        "options": {"queue": "reports", "expires": 3600},
    },
    "winter": {
        "task": "shop.tasks.close_day",
        "schedule": crontab.from_string("*/20 22-23 * nov-feb mon-fri"),
    },
    "heartbeat": {"task": "shop.tasks.beat", "schedule": timedelta(minutes=5)},
    "slow-heartbeat": {"task": "shop.tasks.beat", "schedule": schedule(run_every=3600.0)},
    "renamed": {"task": "send-mail", "schedule": crontab(minute=0)},
}
