"""The tasks that run in every deployment. The store is that of ``ROTA_STORE``."""

from datetime import timedelta
from pathlib import Path

from rota import Rota
from rota.clock.system import SystemClock
from rota.worker import WorkerSettings

app = Rota(settings=WorkerSettings(queues=("default", "closed")))


@app.task(name="matrix.add")
async def add(x: int, y: int) -> int:
    return x + y


@app.task(name="matrix.fail")
async def fail(key: str) -> str:
    return _look_up(key)


def _look_up(key: str) -> str:
    empty: dict[str, str] = {}
    return empty[key]


@app.task(name="matrix.hold")
async def hold(released_by: str) -> None:
    """Take more than a second, and as long as there is no file of that name."""
    await SystemClock().sleep(timedelta(seconds=1.2))
    while not Path(released_by).exists():  # noqa: ASYNC240 - a look that takes no time
        await SystemClock().sleep(timedelta(milliseconds=50))


@app.task(name="matrix.notify", notifies=True)
async def notify() -> None: ...


@app.task(name="matrix.say")
async def say() -> None:
    """Notifies people only if its job says so."""


@app.task(name="matrix.closed", queue="closed")
async def closed() -> None: ...


def beat() -> None:
    """A declarative task that succeeds."""


async def break_down() -> None:
    """A declarative task that fails."""
    raise OSError("disk full")


registrations = [
    ("matrix.beat", "* * * * *", beat, timedelta(seconds=1)),
    ("matrix.broken", "* * * * *", break_down, timedelta(hours=1)),
]


@app.schedule(timedelta(seconds=2), name="matrix.tick")
async def tick() -> None: ...
