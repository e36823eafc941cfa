"""The watch of any process: who looks, what is logged, measured and posted, and how soon."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.unit.kinds.http.receiver import Receiver, receiving

from rota.errors import InvalidConfigurationError
from rota.events import AlertEnded, AlertNotSent, AlertRaised, Event
from rota.kinds import HttpRules, Keyring, verify
from rota.kinds.network import read_network
from rota.rail import Rail
from rota.runtime.configuration import Webhook, read_webhook
from rota.runtime.watch import Watch
from rota.runtime.webhook import WebhookSender
from rota.stores.inspection import StoreInspection
from rota.stores.memory import MemoryStore
from rota.telemetry.fleet_metrics import NoticeMetrics
from rota.telemetry.health import complete_store_status
from rota.testing import VirtualClock

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECRET = "a-secret-of-the-tests"  # noqa: S105 - of the tests
OVERDUE = "rota_success_overdue_seconds"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    async with MemoryStore() as opened:
        yield opened


async def leave_undone(store: MemoryStore, clock: VirtualClock) -> str:
    """A series that no worker runs: its switch fires after a minute."""
    rail = Rail(store, clock=clock, draw_bits=Random(1).getrandbits)
    return await rail.schedule_recurring("backup", {}, interval="1h", alert_after="1m")


def observe(watch: Watch) -> list[Event]:
    seen: list[Event] = []
    watch.events.subscribe(seen.append)
    return seen


async def read_metric(store: MemoryStore, clock: VirtualClock) -> float | None:
    registry = CollectorRegistry()
    inspection = StoreInspection(address="", kind="")
    status = await complete_store_status(store, inspection, clock.now())
    assert status.report is not None
    NoticeMetrics(registry).show(status.report, clock.now())
    labels = {"source": "series", "tenant": "default", "name": "backup"}
    return registry.get_sample_value(OVERDUE, labels)


async def test_of_two_processes_one_logs_each_alert_within_a_minute_and_its_end(
    store: MemoryStore, clock: VirtualClock
) -> None:
    series_id = await leave_undone(store, clock)
    watches = [Watch(store, clock) for _ in range(2)]
    seen = [observe(each) for each in watches]
    tasks = [asyncio.create_task(each.run()) for each in watches]
    await clock.advance(MINUTE)
    assert sum(map(len, seen)) <= 1
    await clock.advance(MINUTE)
    (raised,) = [event for each in seen for event in each]
    assert isinstance(raised, AlertRaised)
    assert (raised.concern, raised.alert_name, raised.since) == ("overdue", "backup", NOW + MINUTE)
    tasks[0].cancel()  # one dies; the other goes on
    assert (await read_metric(store, clock) or 0) >= 60
    await Rail(store, clock=clock).cancel(series_id)
    await clock.advance(MINUTE)
    assert [type(event) for each in seen for event in each] == [AlertRaised, AlertEnded]
    assert await read_metric(store, clock) is None
    for each in tasks:
        each.cancel()
    await asyncio.wait(tasks)


async def test_a_process_shows_the_report_of_another_as_often_as_it_is_told(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await leave_undone(store, clock)
    await clock.advance(MINUTE)
    registry = CollectorRegistry()
    quick = Watch(store, clock, every=timedelta(seconds=2), show=NoticeMetrics(registry).show)
    assert await Watch(store, clock).run_once() is not None
    assert await quick.run_once() is None
    labels = {"source": "series", "tenant": "default", "name": "backup"}
    assert registry.get_sample_value(OVERDUE, labels) == 0
    await clock.advance(timedelta(seconds=2))
    assert await quick.run_once() is not None
    assert registry.get_sample_value(OVERDUE, labels) == 2


def sender_for(receiver: Receiver, *secret: str) -> WebhookSender:
    rules = HttpRules(
        networks=(read_network("127.0.0.0/8"),),
        ports=frozenset({receiver.port}),
        is_plain_allowed=True,
    )
    keyring = Keyring({"ROTA_SECRET_ALERTS": SECRET})
    webhook = Webhook(f"http://127.0.0.1:{receiver.port}/alerts", *secret)
    return WebhookSender(webhook, rules, keyring)


async def test_the_webhook_is_posted_each_alert_once_and_signed(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await leave_undone(store, clock)
    await clock.advance(MINUTE)
    async with receiving() as receiver:
        for _ in range(3):
            await Watch(store, clock, sender_for(receiver, "alerts").send).run_once()
            await clock.advance(MINUTE)
        (posted,) = receiver.received
    assert (posted.method, posted.target) == ("POST", "/alerts")
    body = msgspec.json.decode(posted.body)
    assert [it["text"] for it in body["alerts"]] == [
        "series backup has not succeeded by Fri 2026-05-01 12:01:00 UTC"
    ]
    signed = verify(posted.body, posted.headers["Rota-Signature"], [SECRET], NOW + MINUTE)
    assert signed.at == NOW + MINUTE


async def test_a_webhook_that_fails_is_logged_and_posted_again_by_another_process(
    store: MemoryStore, clock: VirtualClock
) -> None:
    await leave_undone(store, clock)
    await clock.advance(MINUTE)
    async with receiving() as receiver:
        receiver.head = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
        first = Watch(store, clock, sender_for(receiver).send)
        seen = observe(first)
        await first.run_once()
        assert [type(event) for event in seen] == [AlertRaised, AlertNotSent]
        receiver.head = Receiver().head
        await clock.advance(MINUTE)
        await Watch(store, clock, sender_for(receiver).send).run_once()
        await clock.advance(MINUTE)
        await Watch(store, clock, sender_for(receiver).send).run_once()
        assert len(receiver.received) == 2


def test_a_webhook_that_may_not_be_called_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidConfigurationError, match="alert-webhook"):
        WebhookSender(Webhook("ftp://alerts.example"))


def test_the_environment_names_the_webhook_unless_it_is_given() -> None:
    environ = {"ROTA_ALERT_WEBHOOK": "https://a.example", "ROTA_ALERT_SECRET": "alerts"}
    assert read_webhook(environ={}) is None
    assert read_webhook(environ=environ) == Webhook("https://a.example", "alerts")
    given = read_webhook("https://b.example", "other", environ)
    assert given == Webhook("https://b.example", "other")
