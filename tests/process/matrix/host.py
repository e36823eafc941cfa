"""A web service of one's own with Rota inside: ``python -m tests.process.matrix.host``."""

import logging
import socket
import sys

import uvicorn
from starlette.applications import Starlette
from tests.process.matrix.tasks import app

from rota.telemetry.logs import JsonFormatter

service = Starlette()
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
