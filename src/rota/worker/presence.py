"""The signs of life of workers: each shows in the store, every few seconds, that it runs."""

import logging
import os
import socket
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import msgspec

from rota.errors import RotaError
from rota.fleet.presence import (
    GONE_AFTER,
    SHOWN_EVERY,
    WORKERS,
    SignOfLife,
    WorkerPresence,
    sweep_gone,
)
from rota.worker.rest import StoreChanges
from rota.worker.settings import Resources

SWEPT_EVERY = 4
"""After this number of its own signs, a worker removes those of workers that are gone."""

SHOWN_UNPOLLED = timedelta(hours=6)
"""How often a worker shows its sign under a virtual clock that does not stop for polls."""

_MILLISECOND = timedelta(milliseconds=1)

logger = logging.getLogger("rota.worker")


async def show_presence(resources: Resources) -> None:
    """Show every few seconds that the worker runs, until cancelled; then withdraw its sign.

    Errors never reach the worker: the next sign is shown anyway.
    """
    clock = resources.clock
    sign = SignOfLife(resources.store, WORKERS, resources.name)
    started_at, shown_count, shown_every = clock.now(), 0, _choose_interval(resources)
    try:
        while True:
            is_sweeping = shown_count % SWEPT_EVERY == 0
            is_shown = await _try_to_show(resources, sign, started_at, is_sweeping=is_sweeping)
            shown_count += 1
            await clock.sleep(shown_every if is_shown else SHOWN_EVERY)
    finally:
        await sign.try_to_withdraw(clock)


async def _try_to_show(
    resources: Resources, sign: SignOfLife, started_at: datetime, *, is_sweeping: bool
) -> bool:
    try:
        await sign.show(msgspec.json.encode(_describe(resources, started_at)))
        if is_sweeping:
            await sweep_gone(resources.store, WORKERS, resources.clock.now())
    except RotaError:
        return False  # the parts that need the store for their work report it
    except Exception:
        logger.exception("The worker could not show that it runs")
        return False
    return True


def _choose_interval(resources: Resources) -> timedelta:
    is_unpolled = StoreChanges.of(resources.store, resources.clock) is not None
    return SHOWN_UNPOLLED if is_unpolled else SHOWN_EVERY


def _describe(resources: Resources, started_at: datetime) -> WorkerPresence:
    settings = resources.settings
    return WorkerPresence(
        id=resources.name,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=_sorted(settings.queues),
        tenants=_sorted(settings.tenants),
        kinds=tuple(sorted(resources.handlers)),
        labels=tuple(sorted(settings.labels)),
        notifying=tuple(sorted(it for it, by in resources.handlers.items() if by.notifies)),
        concurrency=settings.concurrency,
        batch=settings.batch,
        poll_ms=round(settings.poll_for / _MILLISECOND),
        lease_ms=round(settings.lease_for / _MILLISECOND),
        version=_read_version(),
        started_at=started_at,
        seen_at=resources.clock.now(),
        gone_after=GONE_AFTER / SHOWN_EVERY * _choose_interval(resources),
    )


def _sorted(names: Collection[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(names))


@cache
def _read_version() -> str:
    """Read once: it is parsed from the installed package's metadata."""
    try:
        return version("rota")
    except PackageNotFoundError:  # run from its source
        return "unknown"
