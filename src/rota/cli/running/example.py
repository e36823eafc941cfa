"""The jobs of the example: some of everything, made of built-in kinds only.

Each job has an idempotency key, and each series a name, so that filling a store again changes
nothing.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rota.cli.rendering.occurrences import format_instant

NOWHERE = "https://rota.invalid/hook"
"""No such host can ever exist: whatever is sent there fails."""

Job = dict[str, Any]


class Scene(NamedTuple):
    """What one tenant has."""

    tenant: str
    jobs: list[Job]
    quiet_hours: dict[str, Any] | None = None


def make_scenes(now: datetime) -> list[Scene]:
    """Everything there is in the example, as of now."""
    quiet = {"start": "22:00", "end": "07:00", "zone": "Europe/London", "why": "example"}
    return [
        Scene("default", [*_series(), *_release(), *_mail(now), *_failing()]),
        Scene("guild-7", list(_reminders(now, "guild-7"))),
        Scene("guild-9", list(_reminders(now, "guild-9")), quiet),
    ]


def _say(key: str, name: str, message: str, **more: Any) -> Job:
    return {
        "name": name,
        "queue": "default",
        "kind": "log.message",
        "payload": {"message": message},
        "idempotency_key": f"demo:{key}",
        **more,
    }


def _series() -> Iterator[Job]:
    rules: tuple[tuple[str, dict[str, str]], ...] = (
        ("Morning digest", {"cron": "0 9 * * mon-fri", "zone": "Europe/London"}),
        ("Fortnightly report", {"rrule": "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "zone": "UTC"}),
        ("Last Friday of the month", {"rrule": "FREQ=MONTHLY;BYDAY=-1FR", "zone": "UTC"}),
        ("Exchange rates", {"interval": "1m", "zone": "UTC"}),
        ("Cache warm-up", {"cron": "*/5 * * * *", "zone": "UTC"}),
    )
    for number, (name, rule) in enumerate(rules):
        yield _say(f"series:{number}", name, name, queue="reports", recurrence=rule)


def _release() -> Iterator[Job]:
    """A release, step by step; each step waits for those before it."""
    steps: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("fetch", ()),
        ("compile", ("fetch",)),
        ("lint", ("fetch",)),
        ("test", ("compile",)),
        ("package", ("test", "lint")),
        ("publish", ("package",)),
        ("announce", ("publish",)),
    )
    for step, needed in steps:
        yield _say(
            f"release:{step}",
            f"Release: {step}",
            f"{step} is done",
            queue="builds",
            priority=8,
            ref=step,
            dependencies=list(needed),
        )


def _mail(now: datetime) -> Iterator[Job]:
    """Some hundred small jobs over the next minutes, in several queues and priorities."""
    for number in range(120):
        queue = ("mail", "images", "billing")[number % 3]
        yield _say(
            f"work:{number}",
            f"{queue.capitalize()} {number}",
            f"{queue} {number} is done",
            queue=queue,
            priority=1 + number % 10,
            run_at=format_instant(now + timedelta(seconds=2 * number)),
        )


def _failing() -> Iterator[Job]:
    """A webhook that nobody answers, which becomes a dead letter, and what waits for it."""
    yield {
        "name": "Call a webhook that is not there",
        "queue": "webhooks",
        "kind": "http.request",
        "payload": {"url": NOWHERE, "method": "POST", "json": {"event": "example"}},
        "retry_policy": {
            "max_attempts": 2,
            "backoff_strategy": "FIXED",
            "base_delay_seconds": 2,
            "max_delay_seconds": 2,
        },
        "idempotency_key": "demo:webhook",
        "ref": "webhook",
    }
    yield _say(
        "after-webhook",
        "Thank for the answer",
        "never said",
        queue="webhooks",
        dependencies=["webhook"],
    )


def _reminders(now: datetime, tenant: str) -> Iterator[Job]:
    delays = (timedelta(seconds=20), timedelta(minutes=5), timedelta(hours=2), timedelta(days=1))
    for number, delay in enumerate(delays):
        yield _say(
            f"reminder:{number}",
            f"Reminder {number + 1} of {tenant}",
            f"{tenant}: the meeting is near",
            queue="reminders",
            run_at=format_instant(now + delay),
        )
