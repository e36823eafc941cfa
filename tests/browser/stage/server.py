"""A real server for the pages: uvicorn on a free port, a store in a file, filled with a story."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

import uvicorn
from tests.browser.stage.story import NOW

from rota.auth.caller import Auth, Scope
from rota.auth.tokens import TokenBook
from rota.clock.system import SystemClock
from rota.runtime.wiring import open_store
from rota.server import create_app
from rota.stores.opened import OpenStore

Fill = Callable[[OpenStore], Awaitable[object]]
Names = Mapping[str, tuple[Scope, ...]]


class StoryClock(SystemClock):
    """The system's clock, set so that it showed the story's instant when it was made."""

    def __init__(self, start: datetime = NOW) -> None:
        self._ahead_for = start - super().now()

    def now(self) -> datetime:
        return super().now() + self._ahead_for


class RunningServer(NamedTuple):
    """Where the server is, and the tokens that are valid there, by name."""

    url: str
    tokens: Mapping[str, str]

    def page(self, path: str = "") -> str:
        return f"{self.url}/admin{path}"


@contextmanager
def run_server(
    folder: Path, fill: Fill, names: Names, auth: Auth | None = None
) -> Iterator[RunningServer]:
    """Serve until the context is left; ``auth`` takes the place of the tokens that are made."""
    served = _Served(folder / "story.db", fill, names, auth)
    try:
        served.start()
        yield RunningServer(served.url, served.tokens)
    finally:
        served.stop()


class _Served:
    """A server in a thread with an event loop of its own."""

    def __init__(self, path: Path, fill: Fill, names: Names, auth: Auth | None) -> None:
        self.tokens: dict[str, str] = {}
        self._path, self._fill, self._names, self._auth = path, fill, names, auth
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_ready = Event()
        self._server: uvicorn.Server | None = None
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._is_ready.wait(60), "the server did not start"
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised where the server is awaited
            self._failure = error
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        async with await open_store(f"sqlite:///{self._path}") as store:
            clock = StoryClock()
            await self._fill(store)
            book = TokenBook(store, clock)
            for name, scopes in self._names.items():
                issued = await book.issue("default", scopes, name)
                self.tokens[name] = issued.secret.reveal()
            app = create_app(store, self._auth or book, clock=clock)
            config = uvicorn.Config(app, log_level="warning", lifespan="off")
            self._server = uvicorn.Server(config)
            self._is_ready.set()
            await self._server.serve(sockets=[self._listener])
