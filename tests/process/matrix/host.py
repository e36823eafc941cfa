"""A web service of one's own with Rota inside: ``python -m tests.process.matrix.host``."""

import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from tests.process.matrix.tasks import app, registrations

from rota import Scheduler, open_store
from rota.telemetry.logs import JsonFormatter


@asynccontextmanager
async def scheduling(_: Starlette) -> AsyncIterator[None]:
    """The strict scheduler of declarative tasks runs while the service does."""
    async with await open_store(os.environ["ROTA_STORE"]) as store:
        scheduler = Scheduler(store)
        await scheduler.initialize(registrations)
        yield
        await scheduler.stop()


service = Starlette(lifespan=scheduling)
app.attach(service, "/rota")


def main() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    log = logging.getLogger("rota")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    listening = socket.create_server(("127.0.0.1", 0))
    log.info("Pages: http://127.0.0.1:%d/rota/admin", listening.getsockname()[1])
    config = uvicorn.Config(service, log_config=None, timeout_graceful_shutdown=5)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
