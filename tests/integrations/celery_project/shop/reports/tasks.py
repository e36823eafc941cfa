"""Tasks of the reports."""

from celery import shared_task

sent: list[str] = []


@shared_task
def send_report(period: str, copies: int) -> None:
    sent.append(f"{copies} {period} reports")
