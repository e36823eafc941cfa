"""A real server for the pages: uvicorn on a free port, a store in a file, a story told in it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import uvicorn
from tests.browser.story import NOW

from rota.access import Auth, Scope, TokenBook
from rota.clock.system import SystemClock
from rota.server import create_app
from rota.stores.opened import OpenStore
from rota.wiring import open_store

Tell = Callable[[OpenStore], Awaitable[object]]


class StoryClock(SystemClock):
    """The system's clock, set so that it showed the story's instant when it was made."""

    def __init__(self, start: datetime = NOW) -> None:
        self._ahead_for = start - super().now()

    def now(self) -> datetime:
        return super().now() + self._ahead_for


class OpenHouse(NamedTuple):
    """Where the server is, and the tokens that are good there, by name."""

    url: str
    tokens: Mapping[str, str]

    def page(self, path: str = "") -> str:
        return f"{self.url}/admin{path}"


@contextmanager
def open_house(
    folder: Path,
    tell: Tell,
    names: Mapping[str, tuple[Scope, ...]],
    auth: Auth | None = None,
) -> Iterator[OpenHouse]:
    """Serve until the context is left; ``auth`` takes the place of the tokens that are made."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    tokens: dict[str, str] = {}
    ready = Event()
    stopping: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def serve() -> None:
        async with await open_store(f"sqlite:///{folder / 'story.db'}") as store:
            clock = StoryClock()
            await tell(store)
            book = TokenBook(store, clock)
            letting_in = auth or book
            for name, scopes in names.items():
                issued = await book.issue("default", scopes, name)
                tokens[name] = issued.secret.reveal()
            config = uvicorn.Config(
                create_app(store, letting_in, clock=clock), log_level="warning", lifespan="off"
            )
            server = uvicorn.Server(config)
            stopping.append(lambda: setattr(server, "should_exit", True))
            ready.set()
            await server.serve(sockets=[listener])

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the server
            failures.append(error)
        finally:
            ready.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    ready.wait(60)
    if failures:
        raise failures[0]
    try:
        yield OpenHouse(f"http://127.0.0.1:{port}", tokens)
    finally:
        for stop in stopping:
            stop()
        thread.join(20)
        listener.close()
