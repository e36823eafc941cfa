"""What a process without pages shows: its metrics at a port, its counts in the store, alerts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import NamedTuple

from rota.clock.protocol import Clock
from rota.errors import AddressUnusableError
from rota.events import EventEmitter
from rota.runtime.configuration import MetricsAddress, read_configuration
from rota.runtime.process import in_background
from rota.runtime.watch import Show, watching
from rota.stores.opened import OpenStore
from rota.telemetry.stats_recorder import StatsRecorder
from rota.worker import Worker

logger = logging.getLogger("rota.runtime")


class MetricsPort(NamedTuple):
    """An open port: ``follow`` shows the events of a worker, ``show`` the report of a watch."""

    url: str
    follow: Callable[[EventEmitter], object]
    show: Show


@asynccontextmanager
async def open_metrics_port(address: MetricsAddress) -> AsyncIterator[MetricsPort]:
    """Show metrics of this process to Prometheus while the context lasts.

    Raises AddressUnusableError if the address cannot be used, and MissingExtraError without the
    extra ``rota[metrics]``.
    """
    metrics = import_module("rota.telemetry.metrics")  # needs the extra
    registry, host, port = metrics.make_process_registry(), address.host, address.port
    try:
        server = metrics.serve_registry(registry, host, port)
    except OSError as error:
        raise AddressUnusableError(host, port, error.strerror or str(error)) from error
    shown_host = f"[{host}]" if ":" in host else host
    try:
        url = f"http://{shown_host}:{server.server_port}/metrics"
        notices = import_module("rota.telemetry.fleet_metrics").NoticeMetrics(registry)
        yield MetricsPort(url, metrics.Metrics(registry).follow, notices.show)
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


@asynccontextmanager
async def observed(worker: Worker, store: OpenStore, clock: Clock) -> AsyncIterator[Worker]:
    """The worker, which counts in the store and shows metrics where the environment says.

    A watch runs beside it. A port that is taken is logged: several processes of one service have
    the same environment.
    """
    address, show = read_configuration().metrics, None
    async with AsyncExitStack() as stack:
        stats = StatsRecorder(store, clock)
        await stack.enter_async_context(in_background(stats.run(), "rota stats"))
        stats.follow(worker.events)
        if address is not None:
            try:
                port = await stack.enter_async_context(open_metrics_port(address))
            except AddressUnusableError as error:
                logger.warning("No metrics: %s", error)
            else:
                port.follow(worker.events)
                show = port.show
                logger.info("Metrics: %s", port.url)
        await stack.enter_async_context(watching(store, clock, show))
        yield worker
