"""What a process without pages shows of itself."""

import logging
import socket
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest

from rota.errors import AddressUnusableError
from rota.events import EventEmitter, JobsLeased
from rota.runtime.configuration import MetricsAddress
from rota.runtime.observation import observed, open_metrics_port
from rota.stores.memory import MemoryStore
from rota.telemetry.totals import read_totals
from rota.testing import VirtualClock
from rota.worker import Worker

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def read(url: str) -> str:
    with urlopen(url, timeout=30) as answer:  # noqa: S310 - an http URL of our own
        return str(answer.read().decode())


async def test_a_port_shows_the_metrics_of_the_process() -> None:
    events = EventEmitter("rota.worker")
    async with open_metrics_port(MetricsAddress(0)) as port:
        port.follow(events)
        events.emit(JobsLeased(worker="w", count=3))
        shown = read(port.url)
    assert "rota_jobs_picked_total 3.0" in shown
    assert "process_cpu_seconds_total" in shown
    assert "rota_stalled_jobs" not in shown  # only a sample of the store knows


async def test_a_port_that_is_taken_is_refused_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(AddressUnusableError, match=str(number)):
            async with open_metrics_port(MetricsAddress(number)):
                pass


async def test_an_embedded_worker_counts_in_the_store_and_shows_metrics_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rota")
    monkeypatch.setenv("ROTA_METRICS_PORT", "0")
    store, clock = MemoryStore(), VirtualClock(NOW)
    worker = Worker(store, clock=clock)
    async with observed(worker, store, clock):
        worker.events.emit(JobsLeased(worker="w", count=2))
        (line,) = [it for it in caplog.messages if it.startswith("Metrics: ")]
        assert "rota_jobs_picked_total 2.0" in read(line.removeprefix("Metrics: "))
    assert (await read_totals(store)).picked == 2


async def test_processes_of_one_service_that_want_the_same_port_run_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, clock = MemoryStore(), VirtualClock(NOW)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("ROTA_METRICS_PORT", str(taken.getsockname()[1]))
        async with observed(Worker(store, clock=clock), store, clock) as worker:
            assert not worker.is_running
    assert "No metrics: " in caplog.text
