"""``rota demo``: fills a store with an example."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rota.cli.options import StoreOption, format_instant
from rota.cli.output import PLAIN, Output, Terminal
from rota.cli.progress import Bars
from rota.cli.session import name_user
from rota.client import Client, StoreAddress, open_client
from rota.runtime.startup import show_address
from rota.runtime.wiring import DEFAULT_STORE

DEAD_URL = "https://rota.invalid/hook"
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
    """A webhook without a server, which becomes a dead letter, and a job that waits for it."""
    yield {
        "name": "Call a webhook that is not there",
        "queue": "webhooks",
        "kind": "http.request",
        "payload": {"url": DEAD_URL, "method": "POST", "json": {"event": "example"}},
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


def demo(*, store: StoreOption = DEFAULT_STORE, output: Output = PLAIN) -> None:
    """Fill the store, and say with what."""
    made = asyncio.run(_fill(output.terminal, store))
    if output.is_done(made):
        return
    created, existing = made["created_count"], made["existing_count"]
    output.terminal.print_text(f"{created} jobs created, {existing} were there already.", "bold")
    where = "" if store == DEFAULT_STORE else f" --store {show_address(store)}"
    output.terminal.print_text(
        f"See them run: rota up{where}. Watch them meanwhile: rota top{where}."
    )


async def _fill(terminal: Terminal, url: str) -> dict[str, int]:
    scenes = make_scenes(terminal.clock.now())
    made = {"created_count": 0, "existing_count": 0}
    with Bars(terminal.err, is_transient=True) as bars:
        bar = bars.find_bar("Creating", sum(len(it.jobs) for it in scenes))
        for scene in scenes:
            address = StoreAddress(url=url, tenant=scene.tenant, who=name_user())
            async with open_client(address, terminal.clock) as client:
                created_count = await _play(client, scene)
            made["created_count"] += created_count
            made["existing_count"] += len(scene.jobs) - created_count
            bars.advance(bar, len(scene.jobs))
    return made


async def _play(client: Client, scene: Scene) -> int:
    """Create the jobs that are missing. Returns how many.

    A key names one job for one occurrence only, and the next occurrence of a series is another one
    every minute: so series are recognised by their names.
    """
    if scene.quiet_hours is not None:
        await client.ask("PUT", "/gates/quiet-hours", body=scene.quiet_hours)
    running = {it["name"] for it in (await client.collect("/series", limit=1000)).items}
    wanted = [it for it in scene.jobs if "recurrence" not in it or it["name"] not in running]
    answer = await client.post("/jobs/bulk", {"jobs": wanted})
    return int(answer["created_count"])
