"""One server process: ``python -m bench.api_contest.serving rota URL PORT``, or ``bare``.

Both are served by uvicorn with the settings of ``rota serve``: h11, and uvloop if it is installed.
"""

import asyncio
import sys
from typing import Any

import uvicorn
from bench.api_contest.bare import make_bare

from rota.auth.tokens import TokenBook
from rota.clock.system import SystemClock
from rota.runtime.wiring import open_store
from rota.server import GuardSettings, ServerSettings, create_app
from rota.server.http.connection import SERVER_OPTIONS

POOL_SIZE = 10


async def serve(name: str, url: str, port: int) -> None:
    if name == "bare":
        await _run(uvicorn.Config(make_bare(url, POOL_SIZE), port=port, **_options("on")))
        return
    async with await open_store(url) as store:
        clock = SystemClock()
        settings = ServerSettings(guarding=GuardSettings(token_rate=None))
        app = create_app(store, TokenBook(store, clock), settings=settings, clock=clock)
        await _run(uvicorn.Config(app, port=port, **_options("off")))


def _options(lifespan: str) -> dict[str, Any]:
    """Those with which rota serves, for both."""
    quiet = {"host": "127.0.0.1", "access_log": False, "log_level": "warning"}
    return {**SERVER_OPTIONS, **quiet, "lifespan": lifespan}


async def _run(config: uvicorn.Config) -> None:
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
