"""Tasks that the app finds by itself."""

from celery import shared_task


@shared_task
def close_day(note: str = "whole") -> str:
    return f"closed: {note}"


@shared_task
def beat() -> str:
    return "beat"


@shared_task(name="send-mail")
def send_mail() -> str:
    return "sent"
